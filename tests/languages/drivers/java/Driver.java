import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The driver of Kafka's clients in Java: see tests/languages/driver.py. */
public class Driver {
    static final ObjectMapper JSON = new ObjectMapper();
    static final Duration POLL = Duration.ofMillis(50);

    interface Action {
        /** Adds to the result. */
        void run(ObjectNode result) throws Exception;
    }

    static synchronized void write(JsonNode event) {
        System.out.println(event);
    }

    static void respond(JsonNode command, Action action) {
        var result = JSON.createObjectNode().put("n", command.get("n").asInt());
        try {
            action.run(result);
        } catch (Exception error) {
            result.put("error", describe(error));
        }
        write(result);
    }

    static String describe(Throwable error) {
        var causes = new ArrayList<String>();
        for (Throwable each = error; each != null; each = each.getCause()) causes.add(each.toString());
        return String.join("; ", causes);
    }

    static Properties properties(JsonNode command) {
        var properties = new Properties();
        properties.put("bootstrap.servers", command.get("servers").asText());
        properties.put("retry.backoff.ms", "20");
        properties.put("reconnect.backoff.ms", "20");
        var security = command.get("security");
        if (security == null) return properties;
        var mechanism = security.get("mechanism").asText();
        var module = mechanism.equals("PLAIN") ? "plain.Plain" : "scram.Scram";
        properties.put("security.protocol", security.get("protocol").asText());
        properties.put("sasl.mechanism", mechanism);
        properties.put("sasl.jaas.config", "org.apache.kafka.common.security.%sLoginModule required username=\"%s\" password=\"%s\";"
            .formatted(module, security.get("user").asText(), security.get("password").asText()));
        properties.put("ssl.truststore.type", "PEM");
        properties.put("ssl.truststore.location", security.get("ca").asText());
        return properties;
    }

    /** A consumer, which belongs to the thread that polls it; commands are carried out between two polls. */
    static class Member implements Runnable, ConsumerRebalanceListener {
        final LinkedBlockingQueue<Runnable> commands = new LinkedBlockingQueue<>();
        final String id;
        final KafkaConsumer<String, String> consumer;
        boolean isOpen = true;

        Member(JsonNode command) {
            id = command.get("id").asText();
            var properties = properties(command);
            properties.put("group.id", command.get("group").asText());
            properties.put("enable.auto.commit", "false");
            properties.put("auto.offset.reset", "earliest");
            properties.put("metadata.max.age.ms", "500");
            properties.put("fetch.max.wait.ms", "100");
            if (command.has("instance")) properties.put("group.instance.id", command.get("instance").asText());
            if (command.has("read_committed")) properties.put("isolation.level", "read_committed");
            if (command.has("consumer_protocol")) {
                properties.put("group.protocol", "consumer");
            } else {
                var assignor = command.has("cooperative") ? "CooperativeSticky" : "Range";
                properties.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor + "Assignor");
                properties.put("session.timeout.ms", command.get("session_ms").asText());
                properties.put("heartbeat.interval.ms", command.get("heartbeat_ms").asText());
            }
            consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
            if (command.has("pattern")) {
                consumer.subscribe(Pattern.compile(command.get("pattern").asText()), this);
            } else {
                consumer.subscribe(List.of(JSON.convertValue(command.get("topics"), String[].class)), this);
            }
            new Thread(this).start();
        }

        @Override
        public void run() {
            while (isOpen) {
                try {
                    for (var record : consumer.poll(POLL)) {
                        write(event("record").put("topic", record.topic()).put("partition", record.partition())
                            .put("offset", record.offset()).put("value", record.value()));
                    }
                } catch (Exception error) {
                    write(event("error").put("error", describe(error)));
                }
                for (Runnable command; isOpen && (command = commands.poll()) != null;) command.run();
            }
        }

        ObjectNode event(String name) {
            return JSON.createObjectNode().put("id", id).put("event", name);
        }

        void assignment(Collection<TopicPartition> partitions) {
            var event = event("assignment");
            var pairs = event.putArray("partitions");
            for (var each : partitions) pairs.addArray().add(each.topic()).add(each.partition());
            write(event);
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> added) {
            assignment(consumer.assignment());
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
            var left = new ArrayList<>(consumer.assignment());
            left.removeAll(revoked);
            assignment(left);
        }

        void carryOut(JsonNode command) {
            commands.add(() -> respond(command, result -> {
                if (command.get("do").asText().equals("commit")) {
                    consumer.commitSync(Map.of(partition(command), new OffsetAndMetadata(command.get("offset").asLong())));
                } else {
                    isOpen = false;
                    consumer.close();
                }
            }));
        }
    }

    static TopicPartition partition(JsonNode command) {
        return new TopicPartition(command.get("topic").asText(), command.get("partition").asInt());
    }

    static void send(KafkaProducer<String, String> producer, JsonNode command) throws Exception {
        var partition = partition(command);
        for (var value : command.get("values")) {
            producer.send(new ProducerRecord<>(partition.topic(), partition.partition(), null, value.asText())).get();
        }
    }

    static KafkaProducer<String, String> producer(Properties properties) {
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    static void describe(JsonNode command, ObjectNode result) throws Exception {
        try (var admin = Admin.create(properties(command))) {
            var group = command.get("group").asText();
            var groups = result.putArray("groups");
            for (var each : admin.listConsumerGroups().all().get()) groups.add(each.groupId());
            var described = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
            result.put("state", described.state().toString()).put("members", described.members().size());
            var offsets = result.putArray("offsets");
            admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().forEach((partition, committed) ->
                offsets.addArray().add(partition.topic()).add(partition.partition()).add(committed.offset()));
        }
    }

    /** A transactional producer and its thread. */
    static class Transactions {
        final ExecutorService thread = Executors.newSingleThreadExecutor();
        KafkaProducer<String, String> producer;

        void carryOut(JsonNode command) {
            thread.submit(() -> respond(command, result -> {
                switch (command.get("do").asText()) {
                    case "begin" -> {
                        if (producer == null) {
                            var properties = properties(command);
                            properties.put("transactional.id", command.get("transactional_id").asText());
                            producer = producer(properties);
                            producer.initTransactions();
                        }
                        producer.beginTransaction();
                    }
                    case "send" -> send(producer, command);
                    default -> {
                        if (command.get("commit").asBoolean()) producer.commitTransaction();
                        else producer.abortTransaction();
                    }
                }
            }));
        }
    }

    public static void main(String[] args) throws Exception {
        var members = new HashMap<String, Member>();
        var producers = new HashMap<String, Transactions>();
        var pool = Executors.newCachedThreadPool();
        var input = new Scanner(System.in);
        while (input.hasNextLine()) {
            var command = JSON.readTree(input.nextLine());
            switch (command.get("do").asText()) {
                case "subscribe" -> respond(command, result -> members.put(command.get("id").asText(), new Member(command)));
                case "commit", "close" -> members.get(command.get("id").asText()).carryOut(command);
                case "begin", "send", "end" ->
                    producers.computeIfAbsent(command.get("id").asText(), id -> new Transactions()).carryOut(command);
                case "produce" -> pool.submit(() -> respond(command, result -> {
                    try (var producer = producer(properties(command))) {
                        send(producer, command);
                    }
                }));
                case "describe" -> pool.submit(() -> respond(command, result -> describe(command, result)));
                default -> throw new IllegalArgumentException(command.toString());
            }
        }
        System.exit(0);
    }
}
