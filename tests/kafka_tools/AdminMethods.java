import java.lang.reflect.Modifier;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.*;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.*;

/**
 * Calls every method of Kafka's Admin, and prints a line with each result: java AdminMethods.java HOST:PORT.
 * Values that differ between two brokers are replaced. The last lines name the methods that were not called.
 */
public class AdminMethods {
    interface Call { Object call() throws Exception; }

    static final Map<String, String> results = new LinkedHashMap<>();

    static void run(String name, Call call) {
        Object result;
        try {
            result = call.call();
            if (result instanceof KafkaFuture<?> future) result = future.get(20, TimeUnit.SECONDS);
        } catch (Exception e) {
            Throwable cause = e instanceof ExecutionException ? e.getCause() : e;
            result = cause.getClass().getSimpleName() + ": " + cause.getMessage();
        }
        results.put(name, show(result));
    }

    /** Results of each key, so that an error of one does not hide the others. */
    static Object each(Map<?, ? extends KafkaFuture<?>> futures) {
        Map<String, String> shown = new TreeMap<>();
        futures.forEach((key, future) -> {
            Object value;
            try {
                value = future.get(20, TimeUnit.SECONDS);
            } catch (Exception e) {
                Throwable cause = e instanceof ExecutionException ? e.getCause() : e;
                value = cause.getClass().getSimpleName() + ": " + cause.getMessage();
            }
            shown.put(show(key), show(value));
        });
        return shown;
    }

    static String show(Object value) {
        if (value instanceof Map<?, ?> map)
            return map.entrySet().stream().map(e -> show(e.getKey()) + "=" + show(e.getValue())).sorted()
                .collect(Collectors.joining(", ", "{", "}"));
        if (value instanceof Collection<?> list)
            return list.stream().map(AdminMethods::show).sorted().collect(Collectors.joining(", ", "[", "]"));
        if (value instanceof Optional<?> o) return o.map(AdminMethods::show).orElse("none");
        if (value instanceof DeletedRecords deleted) return "before " + deleted.lowWatermark();
        if (value instanceof Config config) return show(config.entries().stream()
            .map(e -> e.name() + "=" + e.value() + " " + e.source() + " " + e.type() + (e.isReadOnly() ? " read-only" : "")).toList());
        return String.valueOf(value);
    }

    public static void main(String[] args) throws Exception {
        String port = args[0].split(":")[1];
        Admin admin = Admin.create(Map.of("bootstrap.servers", args[0], "request.timeout.ms", 10000, "default.api.timeout.ms", 15000));
        TopicPartition t0 = new TopicPartition("j", 0), t1 = new TopicPartition("j", 1), none = new TopicPartition("none", 0);
        TopicPartitionReplica replica = new TopicPartitionReplica("j", 0, 1);
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, "j");
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, "1");
        AclBinding acl = new AclBinding(new ResourcePattern(ResourceType.TOPIC, "j", PatternType.LITERAL),
            new AccessControlEntry("User:a", "*", AclOperation.READ, AclPermissionType.ALLOW));
        ClientQuotaEntity alice = new ClientQuotaEntity(Map.of("user", "alice"));

        run("createTopics", () -> each(admin.createTopics(List.of(new NewTopic("j", 2, (short) 1), new NewTopic("bad name", 1, (short) 1))).values()));
        run("createPartitions", () -> each(admin.createPartitions(Map.of("j", NewPartitions.increaseTo(3), "none", NewPartitions.increaseTo(3))).values()));
        var producer = new org.apache.kafka.clients.producer.KafkaProducer<byte[], byte[]>(Map.of("bootstrap.servers", args[0], "transactional.id", "jt",
            "key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer", "value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer"));
        producer.initTransactions();
        producer.beginTransaction();
        producer.send(new org.apache.kafka.clients.producer.ProducerRecord<>("j", 0, 1700000000000L, null, new byte[1])).get();
        run("listTopics", () -> admin.listTopics().names().get().contains("j"));
        run("describeTopics", () -> each(admin.describeTopics(List.of("j", "none")).topicNameValues()));
        run("describeCluster", () -> admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true)).authorizedOperations());
        run("describeConfigs", () -> each(admin.describeConfigs(List.of(topic, new ConfigResource(ConfigResource.Type.TOPIC, "none"),
            new ConfigResource(ConfigResource.Type.GROUP, "g"), new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "m"))).values()));
        run("describeConfigs broker", () -> admin.describeConfigs(List.of(broker)).all().get().get(broker).entries().stream()
            .filter(e -> !e.name().startsWith("kohort.")).map(e -> e.name() + " " + e.type()).toList());
        run("incrementalAlterConfigs", () -> each(admin.incrementalAlterConfigs(Map.of(
            topic, List.of(new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.APPEND)),
            broker, List.of(new AlterConfigOp(new ConfigEntry("group.max.size", "5"), AlterConfigOp.OpType.SET)),
            new ConfigResource(ConfigResource.Type.BROKER, ""), List.of(new AlterConfigOp(new ConfigEntry("nonsense", "5"), AlterConfigOp.OpType.SET)))).values()));
        run("incrementalAlterConfigs delete", () -> each(admin.incrementalAlterConfigs(Map.of(
            new ConfigResource(ConfigResource.Type.BROKER, ""), List.of(new AlterConfigOp(new ConfigEntry("nonsense", ""), AlterConfigOp.OpType.DELETE)))).values()));
        run("listConfigResources", () -> admin.listConfigResources(Set.of(ConfigResource.Type.BROKER_LOGGER, ConfigResource.Type.CLIENT_METRICS), new ListConfigResourcesOptions()).all());
        run("listClientMetricsResources", () -> admin.listClientMetricsResources().all());
        run("clientInstanceId", () -> admin.clientInstanceId(java.time.Duration.ofSeconds(3)));
        run("createAcls", () -> each(admin.createAcls(List.of(acl)).values()));
        Thread.sleep(300);
        run("describeAcls", () -> admin.describeAcls(AclBindingFilter.ANY).values());
        run("deleteAcls", () -> admin.deleteAcls(List.of(AclBindingFilter.ANY)).all());
        run("alterClientQuotas", () -> each(admin.alterClientQuotas(List.of(new ClientQuotaAlteration(alice, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1000.0))))).values()));
        Thread.sleep(300);
        run("describeClientQuotas", () -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities());
        run("alterClientQuotas remove", () -> each(admin.alterClientQuotas(List.of(new ClientQuotaAlteration(alice, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", null))))).values()));
        run("alterUserScramCredentials", () -> each(admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion("u", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "p"),
            new UserScramCredentialDeletion("v", ScramMechanism.SCRAM_SHA_512))).values()));
        Thread.sleep(300);
        run("describeUserScramCredentials", () -> admin.describeUserScramCredentials(List.of("u")).all());
        run("alterPartitionReassignments", () -> each(admin.alterPartitionReassignments(Map.of(t0, Optional.of(new NewPartitionReassignment(List.of(1))), t1, Optional.empty(), none, Optional.empty())).values()));
        run("listPartitionReassignments", () -> admin.listPartitionReassignments().reassignments());
        run("alterReplicaLogDirs", () -> each(admin.alterReplicaLogDirs(Map.of(replica, "/nowhere")).values()));
        run("describeLogDirs", () -> admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1).values().iterator().next().replicaInfos().get(t0));
        run("describeReplicaLogDirs", () -> admin.describeReplicaLogDirs(List.of(replica)).all().get().get(replica).getCurrentReplicaLogDir() != null);
        run("electLeaders", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(t0, none)).partitions());
        run("listOffsets", () -> each(Stream.of(t0, none).collect(Collectors.toMap(p -> p, p -> admin.listOffsets(Map.of(p, OffsetSpec.latest())).partitionResult(p)))));
        for (var spec : List.of(OffsetSpec.earliest(), OffsetSpec.maxTimestamp(), OffsetSpec.earliestLocal(), OffsetSpec.latestTiered(), OffsetSpec.forTimestamp(5)))
            run("listOffsets " + spec.getClass().getSimpleName(), () -> admin.listOffsets(Map.of(t0, spec)).partitionResult(t0));
        run("deleteRecords", () -> each(admin.deleteRecords(Map.of(t1, RecordsToDelete.beforeOffset(5), t0, RecordsToDelete.beforeOffset(0))).lowWatermarks()));
        run("describeProducers", () -> each(Map.of(t0, admin.describeProducers(List.of(t0)).partitionResult(t0), t1, admin.describeProducers(List.of(t1)).partitionResult(t1))));
        run("describeTransactions", () -> each(Map.of("jt", admin.describeTransactions(List.of("jt")).description("jt"), "x", admin.describeTransactions(List.of("x")).description("x"))));
        run("listTransactions", () -> admin.listTransactions(new ListTransactionsOptions().filterOnTransactionalIdPattern("j.*")).all());
        run("abortTransaction", () -> admin.abortTransaction(new AbortTransactionSpec(t1, 999, (short) 0, 0)).all());
        run("forceTerminateTransaction", () -> admin.forceTerminateTransaction("jt").result());
        run("fenceProducers", () -> each(Map.of("jt", admin.fenceProducers(List.of("jt")).fencedProducers().get("jt"))));
        run("alterConsumerGroupOffsets", () -> admin.alterConsumerGroupOffsets("jg", Map.of(t0, new OffsetAndMetadata(1), none, new OffsetAndMetadata(1))).partitionResult(none));
        run("alterConsumerGroupOffsets 2", () -> admin.alterConsumerGroupOffsets("jg", Map.of(t0, new OffsetAndMetadata(1))).all());
        run("listConsumerGroups", () -> admin.listConsumerGroups().all().get().stream().filter(g -> g.groupId().startsWith("j")).toList());
        run("listGroups", () -> admin.listGroups().all().get().stream().filter(g -> g.groupId().startsWith("j")).toList());
        run("describeConsumerGroups", () -> each(admin.describeConsumerGroups(List.of("jg", "x")).describedGroups()));
        run("describeClassicGroups", () -> each(admin.describeClassicGroups(List.of("jg", "x")).describedGroups()));
        run("describeShareGroups", () -> each(admin.describeShareGroups(List.of("jg")).describedGroups()));
        run("describeStreamsGroups", () -> each(admin.describeStreamsGroups(List.of("jg")).describedGroups()));
        run("listConsumerGroupOffsets", () -> admin.listConsumerGroupOffsets("jg").partitionsToOffsetAndMetadata());
        run("removeMembersFromConsumerGroup", () -> admin.removeMembersFromConsumerGroup("jg", new RemoveMembersFromConsumerGroupOptions(Set.of(new MemberToRemove("i")))).all());
        run("removeMembersFromConsumerGroup all", () -> admin.removeMembersFromConsumerGroup("jg", new RemoveMembersFromConsumerGroupOptions()).all());
        run("deleteConsumerGroupOffsets", () -> admin.deleteConsumerGroupOffsets("jg", Set.of(t0, none)).partitionResult(none));
        run("deleteConsumerGroups", () -> each(admin.deleteConsumerGroups(List.of("jg", "x")).deletedGroups()));
        run("describeFeatures", () -> admin.describeFeatures().featureMetadata().get().finalizedFeatures().get("group.version"));
        run("updateFeatures", () -> each(admin.updateFeatures(Map.of("nonsense", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)), new UpdateFeaturesOptions()).values()));
        run("describeMetadataQuorum", () -> admin.describeMetadataQuorum().quorumInfo().get().leaderId());
        run("unregisterBroker", () -> admin.unregisterBroker(77).all());
        run("addRaftVoter", () -> admin.addRaftVoter(77, Uuid.ZERO_UUID, Set.of(new RaftVoterEndpoint("CONTROLLER", "h", 1))).all());
        run("removeRaftVoter", () -> admin.removeRaftVoter(77, Uuid.ZERO_UUID).all());
        run("createDelegationToken", () -> admin.createDelegationToken().delegationToken());
        run("renewDelegationToken", () -> admin.renewDelegationToken(new byte[1]).expiryTimestamp());
        run("expireDelegationToken", () -> admin.expireDelegationToken(new byte[1]).expiryTimestamp());
        run("describeDelegationToken", () -> admin.describeDelegationToken().delegationTokens());
        run("listShareGroupOffsets", () -> admin.listShareGroupOffsets(Map.of("s", new ListShareGroupOffsetsSpec())).all());
        run("alterShareGroupOffsets", () -> admin.alterShareGroupOffsets("s", Map.of(t0, 1L)).all());
        run("deleteShareGroupOffsets", () -> admin.deleteShareGroupOffsets("s", Set.of("j")).all());
        run("deleteShareGroups", () -> admin.deleteShareGroups(List.of("s")).all());
        run("listStreamsGroupOffsets", () -> admin.listStreamsGroupOffsets(Map.of("s", new ListStreamsGroupOffsetsSpec())).all());
        run("alterStreamsGroupOffsets", () -> admin.alterStreamsGroupOffsets("s", Map.of(t0, new OffsetAndMetadata(1))).all());
        run("deleteStreamsGroupOffsets", () -> admin.deleteStreamsGroupOffsets("s", Set.of(t0)).all());
        run("deleteStreamsGroups", () -> admin.deleteStreamsGroups(List.of("s")).all());
        run("metrics", () -> !admin.metrics().isEmpty());
        run("deleteTopics", () -> each(admin.deleteTopics(List.of("j", "none")).topicNameValues()));
        producer.close(java.time.Duration.ZERO);
        admin.close();

        String cluster = "[A-Za-z0-9_-]{22}";
        results.forEach((name, result) -> System.out.println(name + "\t" + result.replace(port, "PORT").replaceAll(cluster + "(?=[,)\\] ])", "ID")
            .replaceAll("\\b1[6-9]\\d{11}\\b", "TIME").replaceAll("roducerId=\\d+", "roducerId=N")));
        Set<String> called = results.keySet().stream().map(n -> n.split(" ")[0]).collect(Collectors.toSet());
        Arrays.stream(Admin.class.getMethods()).filter(m -> !Modifier.isStatic(m.getModifiers())).map(m -> m.getName()).distinct().sorted()
            .filter(n -> !called.contains(n) && !n.equals("close")).forEach(n -> System.out.println("not called\t" + n));
    }
}
