import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Scanner;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Runs the assignors of Kafka's group coordinator: a case in JSON per line, its assignment per line.
 *
 * {"assignor": "uniform" | "server-range", "partitions": {topic: count}, "members": {member:
 *  {"topics": [...], "owned": [[topic, partition], ...], "group_instance_id": null | id}}}
 * -> {member: [[topic, partition], ...]}
 *
 * Topic ids are chosen so that their hashes have the order of the names, and members keep the order
 * of the case: Kafka's result depends on both orders.
 */
public class ServerOracle {
    static final ObjectMapper JSON = new ObjectMapper();

    static JsonNode assign(JsonNode c) {
        Map<String, Uuid> ids = new TreeMap<>();
        Map<Uuid, String> names = new HashMap<>();
        Map<Uuid, Integer> sizes = new HashMap<>();
        for (var e : c.get("partitions").properties()) ids.put(e.getKey(), null);
        for (String topic : ids.keySet()) {
            Uuid id = new Uuid(0, names.size() + 2);
            ids.put(topic, id);
            names.put(id, topic);
            sizes.put(id, c.get("partitions").get(topic).asInt());
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Set<Set<Uuid>> subscriptions = new java.util.HashSet<>();
        for (var e : c.get("members").properties()) {
            Set<Uuid> subscribed = new TreeSet<>();
            for (JsonNode topic : e.getValue().get("topics")) subscribed.add(ids.get(topic.asText()));
            Map<Uuid, Set<Integer>> owned = new TreeMap<>();
            for (JsonNode tp : e.getValue().get("owned")) {
                Uuid id = ids.get(tp.get(0).asText());
                owned.computeIfAbsent(id, x -> new TreeSet<>()).add(tp.get(1).asInt());
                owners.computeIfAbsent(id, x -> new HashMap<>()).put(tp.get(1).asInt(), e.getKey());
            }
            JsonNode instance = e.getValue().get("group_instance_id");
            members.put(e.getKey(), new MemberSubscriptionAndAssignmentImpl(Optional.empty(),
                instance.isNull() ? Optional.empty() : Optional.of(instance.asText()), subscribed, new Assignment(owned)));
            subscriptions.add(subscribed);
        }
        SubscriptionType type = subscriptions.size() == 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        ConsumerGroupPartitionAssignor assignor =
            c.get("assignor").asText().equals("uniform") ? new UniformAssignor() : new RangeAssignor();
        var assigned = assignor.assign(new GroupSpecImpl(members, type, owners), new SubscribedTopicDescriber() {
            public int numPartitions(Uuid topic) { return sizes.getOrDefault(topic, -1); }
            public Set<String> racksForPartition(Uuid topic, int partition) { return Set.of(); }
        }).members();
        ObjectNode out = JSON.createObjectNode();
        for (String member : members.keySet()) {
            ArrayNode list = out.putArray(member);
            if (!assigned.containsKey(member)) continue;
            new TreeMap<>(assigned.get(member).partitions()).forEach((id, partitions) ->
                new TreeSet<>(partitions).forEach(p -> list.addArray().add(names.get(id)).add(p)));
        }
        return out;
    }

    public static void main(String[] x) throws Exception {
        Scanner in = new Scanner(System.in);
        while (in.hasNextLine()) System.out.println(JSON.writeValueAsString(assign(JSON.readTree(in.nextLine()))));
    }
}
