package example;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class BillingTest {
    static Kohort kohort;

    @BeforeAll
    static void start() throws Exception {
        kohort = new Kohort();
    }

    @AfterAll
    static void stop() throws Exception {
        kohort.close();
    }

    @BeforeEach
    void reset() throws Exception {
        kohort.post("/reset", "");
    }

    @Test
    void aServiceCommitsAlthoughItsCoordinatorMovesAndRejoinsAfterItsSession() throws Exception {
        kohort.post("/topics/orders", "{\"partitions\": 2}");
        kohort.post("/topics/orders/records", "{\"values\": [\"espresso\", \"tea\"], \"partition\": 0}");
        kohort.post(
                "/faults",
                "{\"action\": \"answer\", \"api\": \"OffsetCommit\", \"error\": \"NOT_COORDINATOR\","
                        + " \"group\": \"billing\", \"times\": 2}");
        try (Service service = new Service(kohort.bootstrapServers)) {
            waitUntil("stable", "\"members\": 1");
            waitUntil("committed", "\"topic\": \"orders\", \"partition\": 0, \"offset\": 2");
            kohort.post("/faults/check", ""); // fails unless the fault has fired twice

            kohort.post("/clock/advance", "{\"seconds\": 46}"); // its session timeout is 45 s
            waitUntil("stable", "\"members\": 1");
            String generations = kohort.get("/groups/billing/generations");
            assertTrue(generations.contains("\"cause\": \"session expired\""), generations);
            assertTrue(service.hasLostPartitions.get());
        }
    }

    /** Waits for up to a minute: on a busy machine, the first consumer of a JVM starts slowly. */
    private static void waitUntil(String until, String arguments) throws Exception {
        kohort.post("/groups/billing/wait", "{\"until\": \"" + until + "\", " + arguments + ", \"timeout\": 60}");
    }

    /** The service under test, in its own thread. */
    static final class Service implements AutoCloseable, ConsumerRebalanceListener {
        final AtomicBoolean hasLostPartitions = new AtomicBoolean();
        private final AtomicBoolean isStopping = new AtomicBoolean();
        private final ExecutorService thread = Executors.newSingleThreadExecutor();
        private final Future<?> work;

        Service(String bootstrapServers) {
            Map<String, Object> config = Map.of(
                    "bootstrap.servers", bootstrapServers,
                    "group.id", "billing",
                    "auto.offset.reset", "earliest",
                    "enable.auto.commit", false,
                    "heartbeat.interval.ms", 100,
                    "retry.backoff.ms", 10);
            work = thread.submit(() -> run(config));
        }

        private void run(Map<String, Object> config) {
            StringDeserializer text = new StringDeserializer();
            try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config, text, text)) {
                consumer.subscribe(List.of("orders"), this);
                while (!isStopping.get()) {
                    if (!consumer.poll(Duration.ofMillis(100)).isEmpty()) {
                        commit(consumer);
                    }
                }
            }
        }

        private static void commit(KafkaConsumer<String, String> consumer) {
            try {
                consumer.commitSync();
            } catch (CommitFailedException wasRemoved) {
                // The new owner of the partitions reads these records again.
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {}

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            hasLostPartitions.set(true);
        }

        @Override
        public void close() throws Exception {
            isStopping.set(true);
            work.get(1, TimeUnit.MINUTES);
            thread.shutdown();
        }
    }
}
