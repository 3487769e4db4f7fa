import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Scanner;
import java.util.Set;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberKey;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.TargetAssignmentBuilder;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroup;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;
import org.apache.kafka.coordinator.group.modern.consumer.ResolvedRegularExpression;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Runs the assignors of Kafka's group coordinator as the coordinator does, with a ConsumerGroup and
 * its TargetAssignmentBuilder: the history of a group in JSON per line, its records per line.
 *
 * {"assignor": "uniform" | "range", "steps": [step]}; a step is one of
 *   {"topics": {name: [most, least significant bits of the id, partitions]}}: all existing topics
 *   {"leave": member}
 *   {"join": member, "topics": [...], "regex": null | [matching topics], "instance": null | id}:
 *     without an assignment, as within the assignment interval
 *   the same with "assign": true: a heartbeat that joins or updates, and computes an assignment
 * -> for each assignment, the records: [[member, [[topic, [partition, ...]], ...]], ...]
 *
 * With the argument "time", milliseconds of the builder for each assignment instead: the minimum
 * of 300 runs.
 */
public class ServerOracle {
    static final ObjectMapper JSON = new ObjectMapper();

    record Topic(String name, Uuid id, int partitionCount) implements CoordinatorMetadataImage.TopicMetadata {
        public List<String> partitionRacks(int partition) { return List.of(); }
    }

    record Image(Map<String, Topic> byName, Map<Uuid, Topic> byId) implements CoordinatorMetadataImage {
        public Set<Uuid> topicIds() { return byId.keySet(); }
        public Set<String> topicNames() { return byName.keySet(); }
        public Optional<TopicMetadata> topicMetadata(String name) { return Optional.ofNullable(byName.get(name)); }
        public Optional<TopicMetadata> topicMetadata(Uuid id) { return Optional.ofNullable(byId.get(id)); }
        public CoordinatorMetadataDelta emptyDelta() { throw new UnsupportedOperationException(); }
        public long version() { return 1; }
        public boolean isEmpty() { return false; }
    }

    final ConsumerGroup group = new ConsumerGroup(new LogContext(), new SnapshotRegistry(new LogContext()), "g");
    final ConsumerGroupPartitionAssignor assignor;
    final Map<Uuid, String> names = new HashMap<>();
    final Map<String, ResolvedRegularExpression> expressions = new HashMap<>();
    final ArrayNode out = JSON.createArrayNode();
    final boolean time;
    Image image;

    ServerOracle(ConsumerGroupPartitionAssignor assignor, boolean time) {
        this.assignor = assignor;
        this.time = time;
    }

    void step(JsonNode step) {
        if (step.has("leave")) {
            group.removeMember(step.get("leave").asText());
            group.removeTargetAssignment(step.get("leave").asText());
        } else if (step.has("join")) {
            heartbeat(step);
        } else {
            image = new Image(new HashMap<>(), new HashMap<>());
            for (var e : step.get("topics").properties()) {
                Uuid id = new Uuid(e.getValue().get(0).asLong(), e.getValue().get(1).asLong());
                Topic topic = new Topic(e.getKey(), id, e.getValue().get(2).asInt());
                image.byName.put(topic.name, topic);
                image.byId.put(id, topic);
                names.put(id, topic.name);
            }
        }
    }

    static List<String> strings(JsonNode node) {
        List<String> list = new ArrayList<>();
        node.forEach(x -> list.add(x.asText()));
        return list;
    }

    void heartbeat(JsonNode step) {
        String id = step.get("join").asText();
        String instance = step.get("instance").isNull() ? null : step.get("instance").asText();
        String regex = null;
        if (!step.get("regex").isNull()) {
            regex = step.get("regex").toString();  // any string that identifies it
            expressions.put(regex, new ResolvedRegularExpression(new HashSet<>(strings(step.get("regex"))), 1, 1));
        }
        ConsumerGroupMember member = new ConsumerGroupMember.Builder(id).setInstanceId(instance)
            .setSubscribedTopicNames(strings(step.get("topics"))).setSubscribedTopicRegex(regex).build();
        String replaced = instance == null ? null : group.staticMemberId(instance);
        if (replaced != null && replaced.equals(id)) replaced = null;
        List<CoordinatorRecord> records = List.of();
        if (step.has("assign")) {
            if (time) time(member, replaced);
            records = build(member, replaced);
            if (!time) out.add(json(records));
        }
        if (replaced != null) {
            Assignment target = group.targetAssignment(replaced);
            group.removeMember(replaced);
            group.removeTargetAssignment(replaced);
            group.updateTargetAssignment(id, target);
        }
        group.updateMember(member);
        group.updateMember(member);  // the record of its current assignment
        for (CoordinatorRecord record : records)
            if (record.key() instanceof ConsumerGroupTargetAssignmentMemberKey key)
                group.updateTargetAssignment(key.memberId(), Assignment.fromRecord(value(record)));
    }

    static ConsumerGroupTargetAssignmentMemberValue value(CoordinatorRecord record) {
        return (ConsumerGroupTargetAssignmentMemberValue) record.value().message();
    }

    List<CoordinatorRecord> build(ConsumerGroupMember member, String replaced) {
        Map<String, ConsumerGroupMember> members = new HashMap<>(group.members());
        members.put(member.memberId(), member);
        members.remove(replaced);
        Set<Set<String>> subscriptions = new HashSet<>();
        for (ConsumerGroupMember m : members.values()) {
            Set<String> topics = new HashSet<>(m.subscribedTopicNames());
            ResolvedRegularExpression expression = expressions.get(m.subscribedTopicRegex());
            if (expression != null) topics.addAll(expression.topics());
            subscriptions.add(topics);
        }
        var builder = new TargetAssignmentBuilder.ConsumerTargetAssignmentBuilder("g", 1, assignor)
            .withTime(Time.SYSTEM)
            .withMembers(group.members())
            .withStaticMembers(group.staticMembers())
            .withSubscriptionType(subscriptions.size() == 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS)
            .withTargetAssignment(group.targetAssignment())
            .withInvertedTargetAssignment(group.invertedTargetAssignment())
            .withMetadataImage(image)
            .withResolvedRegularExpressions(expressions)
            .addOrUpdateMember(member.memberId(), member);
        if (replaced != null) builder.removeMember(replaced);
        return builder.build().records();
    }

    void time(ConsumerGroupMember member, String replaced) {
        double ms = Double.MAX_VALUE;
        for (int i = 0; i < 300; i++) {
            long start = System.nanoTime();
            build(member, replaced);
            ms = Math.min(ms, (System.nanoTime() - start) / 1e6);
        }
        out.add(ms);
    }

    ArrayNode json(List<CoordinatorRecord> records) {
        ArrayNode list = JSON.createArrayNode();
        for (CoordinatorRecord record : records)
            if (record.key() instanceof ConsumerGroupTargetAssignmentMemberKey key) {
                ArrayNode topics = list.addArray().add(key.memberId()).addArray();
                for (var topic : value(record).topicPartitions()) {
                    ArrayNode partitions = topics.addArray().add(names.get(topic.topicId())).addArray();
                    topic.partitions().forEach(partitions::add);
                }
            }
        return list;
    }

    public static void main(String[] x) throws Exception {
        Scanner in = new Scanner(System.in);
        while (in.hasNextLine()) {
            JsonNode history = JSON.readTree(in.nextLine());
            boolean uniform = history.get("assignor").asText().equals("uniform");
            ServerOracle oracle = new ServerOracle(uniform ? new UniformAssignor() : new RangeAssignor(), x.length > 0);
            history.get("steps").forEach(oracle::step);
            System.out.println(JSON.writeValueAsString(oracle.out));
        }
    }
}
