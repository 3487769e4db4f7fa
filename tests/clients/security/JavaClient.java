import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import java.util.Set;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Java's clients for tests. Each line of the input is a case in JSON, {"action", "config", "topic",
 * "group"}; each line of the output its result: null, or the classes and messages of the error and
 * its causes.
 */
public class JavaClient {
    static final ObjectMapper JSON = new ObjectMapper();
    static final Duration TIMEOUT = Duration.ofSeconds(20);

    record Case(String action, Map<String, String> config, String topic, String group) {
        void run() throws Exception {
            switch (action) {
                case "brokers" -> {
                    try (Admin admin = Admin.create(properties())) {
                        admin.describeCluster().nodes().get();
                    }
                }
                case "describe" -> {
                    try (Admin admin = Admin.create(properties())) {
                        admin.describeTopics(List.of(topic)).allTopicNames().get();
                    }
                }
                case "produce" -> {
                    try (var producer = new KafkaProducer<>(properties(), new ByteArraySerializer(), new ByteArraySerializer())) {
                        producer.send(new ProducerRecord<>(topic, new byte[] {1})).get();
                    }
                }
                case "fetch" -> {
                    try (var consumer = consumer()) {
                        consumer.assign(List.of(partition()));
                        consumer.seekToBeginning(List.of(partition()));
                        if (consumer.poll(TIMEOUT).isEmpty()) throw new IllegalStateException("no record");
                    }
                }
                case "join" -> {
                    try (var consumer = consumer()) {
                        consumer.subscribe(List.of(topic));
                        if (consumer.poll(TIMEOUT).isEmpty()) throw new IllegalStateException("no record");
                    }
                }
                case "commit" -> {
                    try (var consumer = consumer()) {
                        consumer.assign(List.of(partition()));
                        consumer.commitSync(Map.of(partition(), new OffsetAndMetadata(1)));
                    }
                }
                default -> throw new IllegalArgumentException(action);
            }
        }

        Properties properties() {
            var properties = new Properties();
            properties.putAll(config);
            return properties;
        }

        TopicPartition partition() {
            return new TopicPartition(topic, 0);
        }

        KafkaConsumer<byte[], byte[]> consumer() {
            var properties = properties();
            properties.put("group.id", group);
            properties.put("enable.auto.commit", "false");
            properties.put("auto.offset.reset", "earliest");
            return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        }
    }

    public static void main(String[] args) throws Exception {
        var input = new Scanner(System.in);
        while (input.hasNextLine()) {
            var given = JSON.readValue(input.nextLine(), Case.class);
            var causes = new ArrayList<String>();
            try {
                given.run();
            } catch (Exception error) {
                for (Throwable each = error; each != null; each = each.getCause()) causes.add(each.toString());
            }
            System.out.println(JSON.writeValueAsString(causes.isEmpty() ? null : String.join("; ", causes)));
        }
    }
}
