import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Supplier;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.runtime.TargetState;
import org.apache.kafka.connect.runtime.distributed.ExtendedAssignment;
import org.apache.kafka.connect.runtime.distributed.ExtendedWorkerState;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeAssignor;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeConnectProtocol;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * Runs Kafka Connect's assignor and serializer: a case in JSON per line, its result per line.
 *
 * Rebalances:
 *          {"max_delay_ms": M, "rounds": [{"now_ms", "generation", "last_completed_generation",
 *           "connectors": {name: tasks}, "running": {worker: [[connector, task], ...]}}, ...]}
 *          -> [{"assigned": {worker: [[connector, task], ...]}, "revoked": {...}, "delay_ms"}, ...]
 * Serializer:
 *          {"url", "config_offset", "sessioned", "allocation": null | {"leader", "leader_url",
 *           "config_offset", "error", "assigned": [...], "revoked": [...], "delay_ms"}}
 *          -> {"metadata": hex, "assignment": hex}
 */
public class ConnectOracle {
    static final ObjectMapper JSON = new ObjectMapper();
    static final String DISTRIBUTED = "org.apache.kafka.connect.runtime.distributed.";

    static class Clock implements Time {
        long ms;
        public long milliseconds() { return ms; }
        public long nanoseconds() { return ms * 1_000_000; }
        public void sleep(long more) { ms += more; }
        public void waitObject(Object o, Supplier<Boolean> until, long deadline) { }
    }

    static List<String> connectors(JsonNode work) {
        List<String> names = new ArrayList<>();
        for (JsonNode p : work) if (p.get(1).asInt() < 0) names.add(p.get(0).asText());
        return names;
    }

    static List<ConnectorTaskId> tasks(JsonNode work) {
        List<ConnectorTaskId> ids = new ArrayList<>();
        for (JsonNode p : work) if (p.get(1).asInt() >= 0) ids.add(new ConnectorTaskId(p.get(0).asText(), p.get(1).asInt()));
        return ids;
    }

    static ClusterConfigState configState(JsonNode connectors) {
        Map<String, Integer> counts = new HashMap<>();
        Map<String, Map<String, String>> configs = new HashMap<>();
        Map<String, TargetState> states = new HashMap<>();
        Map<ConnectorTaskId, Map<String, String>> taskConfigs = new HashMap<>();
        connectors.properties().forEach(e -> {
            counts.put(e.getKey(), e.getValue().asInt());
            configs.put(e.getKey(), Map.of());
            states.put(e.getKey(), TargetState.STARTED);
            for (int i = 0; i < e.getValue().asInt(); i++) taskConfigs.put(new ConnectorTaskId(e.getKey(), i), Map.of());
        });
        return new ClusterConfigState(1, null, counts, configs, states, taskConfigs, Map.of(), Map.of(), Map.of(), Set.of(), Set.of());
    }

    static Method accessible(Class<?> type, String name, Class<?>... args) throws Exception {
        Method m = type.getDeclaredMethod(name, args);
        m.setAccessible(true);
        return m;
    }

    @SuppressWarnings("unchecked")
    static ObjectNode work(Object cluster, String connectors, String tasks, Collection<String> workers) throws Exception {
        Map<String, Collection<String>> c = (Map<String, Collection<String>>) accessible(cluster.getClass(), connectors).invoke(cluster);
        Map<String, Collection<ConnectorTaskId>> t = (Map<String, Collection<ConnectorTaskId>>) accessible(cluster.getClass(), tasks).invoke(cluster);
        ObjectNode out = JSON.createObjectNode();
        for (String worker : workers) {
            ArrayNode list = out.putArray(worker);
            for (String name : c.getOrDefault(worker, List.of())) list.addArray().add(name).add(-1);
            for (ConnectorTaskId id : t.getOrDefault(worker, List.of())) list.addArray().add(id.connector()).add(id.task());
        }
        return out;
    }

    static JsonNode rebalance(JsonNode c) throws Exception {
        Class<?> builder = Class.forName(DISTRIBUTED + "WorkerCoordinator$ConnectorsAndTasks$Builder");
        Constructor<?> make = builder.getDeclaredConstructor();
        make.setAccessible(true);
        Clock clock = new Clock();
        IncrementalCooperativeAssignor assignor =
            new IncrementalCooperativeAssignor(new LogContext(), clock, c.get("max_delay_ms").asInt());
        Method perform = accessible(assignor.getClass(), "performTaskAssignment", ClusterConfigState.class, int.class, int.class, Map.class);
        Field delay = assignor.getClass().getDeclaredField("delay");
        delay.setAccessible(true);
        ArrayNode results = JSON.createArrayNode();
        for (JsonNode r : c.get("rounds")) {
            clock.ms = r.get("now_ms").asLong();
            Map<String, Object> running = new TreeMap<>();
            for (var e : r.get("running").properties()) {
                Object b = make.newInstance();
                accessible(builder, "with", Collection.class, Collection.class).invoke(b, connectors(e.getValue()), tasks(e.getValue()));
                running.put(e.getKey(), accessible(builder, "build").invoke(b));
            }
            Object cluster = perform.invoke(assignor, configState(r.get("connectors")),
                r.get("last_completed_generation").asInt(), r.get("generation").asInt(), running);
            ObjectNode result = results.addObject();
            result.set("assigned", work(cluster, "newlyAssignedConnectors", "newlyAssignedTasks", running.keySet()));
            result.set("revoked", work(cluster, "newlyRevokedConnectors", "newlyRevokedTasks", running.keySet()));
            result.put("delay_ms", (int) delay.get(assignor));
        }
        return results;
    }

    static String hex(ByteBuffer b) {
        byte[] bytes = new byte[b.remaining()];
        b.duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    static JsonNode serialize(JsonNode c) {
        boolean sessioned = c.get("sessioned").asBoolean();
        JsonNode a = c.get("allocation");
        ExtendedAssignment allocation = a.isNull() ? null : new ExtendedAssignment(
            (short) (sessioned ? 2 : 1), (short) a.get("error").asInt(), a.get("leader").asText(), a.get("leader_url").asText(),
            a.get("config_offset").asLong(), connectors(a.get("assigned")), tasks(a.get("assigned")),
            connectors(a.get("revoked")), tasks(a.get("revoked")), a.get("delay_ms").asInt());
        ExtendedWorkerState state = new ExtendedWorkerState(c.get("url").asText(), c.get("config_offset").asLong(), allocation);
        ObjectNode out = JSON.createObjectNode();
        out.put("metadata", hex(IncrementalCooperativeConnectProtocol.serializeMetadata(state, sessioned)));
        if (allocation != null) out.put("assignment", hex(IncrementalCooperativeConnectProtocol.serializeAssignment(allocation, sessioned)));
        return out;
    }

    public static void main(String[] x) throws Exception {
        Scanner in = new Scanner(System.in);
        while (in.hasNextLine()) {
            JsonNode c = JSON.readTree(in.nextLine());
            System.out.println(JSON.writeValueAsString(c.has("rounds") ? rebalance(c) : serialize(c)));
        }
    }
}
