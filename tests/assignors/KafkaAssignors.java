// Runs Kafka's assignors: reads a case in JSON per line (format: cases.py), prints its assignment.
//
//   java -cp 'kafka/*' KafkaAssignors.java        prints assignments
//   java -cp 'kafka/*' KafkaAssignors.java time   prints nanoseconds, the minimum of several runs

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

public class KafkaAssignors {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int TIMED_RUNS = 15;
    private static final long TIMED_NANOSECONDS = 2_000_000_000L;

    public static void main(String[] arguments) throws Exception {
        boolean timed = arguments.length > 0 && arguments[0].equals("time");
        BufferedReader cases = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = cases.readLine(); line != null; line = cases.readLine()) {
            JsonNode testCase = JSON.readTree(line);
            output.println(JSON.writeValueAsString(timed ? nanoseconds(testCase) : assignment(testCase)));
        }
    }

    private static ObjectNode assignment(JsonNode testCase) {
        try {
            return toJson(assign(testCase, cluster(testCase)));
        } catch (RuntimeException error) {
            return JSON.createObjectNode().put("error", error.toString());
        }
    }

    private static long nanoseconds(JsonNode testCase) {
        Cluster cluster = cluster(testCase);
        long best = Long.MAX_VALUE;
        long end = System.nanoTime() + TIMED_NANOSECONDS;
        for (int run = 0; run == 0 || run < TIMED_RUNS && System.nanoTime() < end; run++) {
            GroupSubscription group = group(testCase);
            ConsumerPartitionAssignor assignor = assignor(testCase);
            long start = System.nanoTime();
            assignor.assign(cluster, group);
            best = Math.min(best, System.nanoTime() - start);
        }
        return best;
    }

    private static Map<String, Assignment> assign(JsonNode testCase, Cluster cluster) {
        return assignor(testCase).assign(cluster, group(testCase)).groupAssignment();
    }

    private static ConsumerPartitionAssignor assignor(JsonNode testCase) {
        String name = testCase.get("assignor").asText();
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException("Kafka has no assignor " + name);
        };
    }

    // One node per rack: the assignors compare racks only.
    private static Cluster cluster(JsonNode testCase) {
        Map<String, Node> nodes = new HashMap<>();
        Node noRack = new Node(0, "kafka", 9092);
        List<PartitionInfo> partitions = new ArrayList<>();
        testCase.get("partitions").fields().forEachRemaining(topic -> {
            JsonNode racks = testCase.path("replica_racks").path(topic.getKey());
            for (int partition = 0; partition < topic.getValue().asInt(); partition++) {
                List<Node> replicas = new ArrayList<>();
                racks.path(partition).forEach(rack -> replicas.add(nodes.computeIfAbsent(
                    rack.asText(), name -> new Node(nodes.size() + 1, "kafka", 9092, rack.isNull() ? null : name))));
                Node[] all = replicas.isEmpty() ? new Node[] {noRack} : replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), partition, all[0], all, all));
            }
        });
        List<Node> allNodes = new ArrayList<>(nodes.values());
        allNodes.add(noRack);
        return new Cluster("kohort", allNodes, partitions, Set.of(), Set.of());
    }

    // Inserted into a HashMap in the order of member ids, as some results depend on that order.
    private static GroupSubscription group(JsonNode testCase) {
        List<Map.Entry<String, JsonNode>> members = new ArrayList<>();
        testCase.get("members").fields().forEachRemaining(members::add);
        members.sort(Map.Entry.comparingByKey());
        Map<String, Subscription> subscriptions = new HashMap<>();
        members.forEach(member -> subscriptions.put(member.getKey(), subscription(member.getValue())));
        return new GroupSubscription(subscriptions);
    }

    private static Subscription subscription(JsonNode member) {
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(topic -> topics.add(topic.asText()));
        List<TopicPartition> owned = new ArrayList<>();
        member.path("owned").forEach(one -> owned.add(new TopicPartition(one.get(0).asText(), one.get(1).asInt())));
        Optional<String> rack = Optional.ofNullable(member.path("rack").textValue());
        ByteBuffer userData = member.path("user_data").isTextual()
            ? ByteBuffer.wrap(Base64.getDecoder().decode(member.get("user_data").asText()))
            : null;
        Subscription subscription =
            new Subscription(topics, userData, owned, member.path("generation").asInt(-1), rack);
        if (member.path("group_instance_id").isTextual()) {
            subscription.setGroupInstanceId(Optional.of(member.get("group_instance_id").asText()));
        }
        return subscription;
    }

    private static ObjectNode toJson(Map<String, Assignment> assignment) {
        ObjectNode result = JSON.createObjectNode();
        assignment.forEach((member, assigned) -> {
            ArrayNode partitions = result.putArray(member);
            assigned.partitions().stream()
                .sorted(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition))
                .forEach(one -> partitions.addArray().add(one.topic()).add(one.partition()));
        });
        return result;
    }
}
