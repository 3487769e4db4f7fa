// Kafka's own assignors, asked by lines of JSON: one case in, its assignment out.
//
//   java -cp 'kafka/*' KafkaAssignors.java        cases on stdin (their form: cases.py)
//   java -cp 'kafka/*' KafkaAssignors.java time   the same, answered by nanoseconds, best of several

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
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = cases.readLine(); line != null; line = cases.readLine()) {
            JsonNode asked = JSON.readTree(line);
            answers.println(JSON.writeValueAsString(timed ? nanoseconds(asked) : answer(asked)));
        }
    }

    private static ObjectNode answer(JsonNode asked) {
        try {
            return shares(assign(asked, cluster(asked)));
        } catch (RuntimeException refused) {
            return JSON.createObjectNode().put("error", refused.toString());
        }
    }

    private static long nanoseconds(JsonNode asked) {
        Cluster cluster = cluster(asked);
        long best = Long.MAX_VALUE;
        long end = System.nanoTime() + TIMED_NANOSECONDS;
        for (int run = 0; run == 0 || run < TIMED_RUNS && System.nanoTime() < end; run++) {
            GroupSubscription group = group(asked);
            ConsumerPartitionAssignor assignor = assignor(asked);
            long start = System.nanoTime();
            assignor.assign(cluster, group);
            best = Math.min(best, System.nanoTime() - start);
        }
        return best;
    }

    private static Map<String, Assignment> assign(JsonNode asked, Cluster cluster) {
        return assignor(asked).assign(cluster, group(asked)).groupAssignment();
    }

    private static ConsumerPartitionAssignor assignor(JsonNode asked) {
        String name = asked.get("assignor").asText();
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException("Kafka has no assignor " + name);
        };
    }

    // A replica is on a node of its rack; which one does not matter to any assignor.
    private static Cluster cluster(JsonNode asked) {
        Map<String, Node> nodes = new HashMap<>();
        Node nowhere = new Node(0, "kafka", 9092);
        List<PartitionInfo> partitions = new ArrayList<>();
        asked.get("partitions").fields().forEachRemaining(topic -> {
            JsonNode racks = asked.path("replica_racks").path(topic.getKey());
            for (int partition = 0; partition < topic.getValue().asInt(); partition++) {
                List<Node> replicas = new ArrayList<>();
                racks.path(partition).forEach(rack -> replicas.add(nodes.computeIfAbsent(
                    rack.asText(), name -> new Node(nodes.size() + 1, "kafka", 9092, rack.isNull() ? null : name))));
                Node[] all = replicas.isEmpty() ? new Node[] {nowhere} : replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), partition, all[0], all, all));
            }
        });
        List<Node> everywhere = new ArrayList<>(nodes.values());
        everywhere.add(nowhere);
        return new Cluster("kohort", everywhere, partitions, Set.of(), Set.of());
    }

    // Put into a HashMap by turns of their ids: where Java's answer depends on that order, so be it.
    private static GroupSubscription group(JsonNode asked) {
        List<Map.Entry<String, JsonNode>> members = new ArrayList<>();
        asked.get("members").fields().forEachRemaining(members::add);
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

    private static ObjectNode shares(Map<String, Assignment> assignment) {
        ObjectNode shares = JSON.createObjectNode();
        assignment.forEach((member, given) -> {
            ArrayNode share = shares.putArray(member);
            given.partitions().stream()
                .sorted(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition))
                .forEach(one -> share.addArray().add(one.topic()).add(one.partition()));
        });
        return shares;
    }
}
