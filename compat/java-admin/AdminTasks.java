import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.ReplicaInfo;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What administration tools do through the Java admin client, refusals included.
 *
 * <p>Usage: {@code java -cp ... AdminTasks.java BOOTSTRAP}. Prints {@code ok NAME} or
 * {@code FAIL NAME: reason} for each feature; ends with 1 when one failed.
 */
public final class AdminTasks {
    private static final String TOPIC = "admin-data";
    private static final TopicPartition PARTITION = new TopicPartition(TOPIC, 0);
    private static final int RECORDS_COUNT = 100;

    private final String bootstrap;
    private final Admin admin;
    private boolean failed;

    private AdminTasks(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap,
            "default.api.timeout.ms", "20000", "request.timeout.ms", "10000"));
    }

    /** One feature; whatever it throws is the reason it failed. */
    private interface Feature {
        void run() throws Exception;
    }

    public static void main(String[] args) {
        if (args.length != 1) {
            System.err.println("usage: AdminTasks BOOTSTRAP");
            System.exit(2);
        }
        AdminTasks program = new AdminTasks(args[0]);
        program.runAll();
        program.admin.close();
        System.exit(program.failed ? 1 : 0);
    }

    private void runAll() {
        feature("describe-cluster", this::describeCluster);
        feature("create-refusals", this::createRefusals);
        feature("validate-only", this::validateOnly);
        feature("describe-by-id", this::describeById);
        feature("describe-configs", this::describeConfigs);
        feature("alter-configs", this::alterConfigs);
        feature("create-partitions", this::createPartitions);
        feature("list-offsets", this::listOffsets);
        feature("describe-producers", this::describeProducers);
        feature("log-dirs", this::logDirs);
        feature("delete-records", this::deleteRecords);
        feature("delete-recreate", this::deleteRecreate);
    }

    private void feature(String name, Feature feature) {
        try {
            feature.run();
            System.out.println("ok " + name);
        } catch (Exception | AssertionError error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            System.out.println("FAIL " + name + ": " + cause);
            error.printStackTrace();
            failed = true;
        }
        System.out.flush();
    }

    private static void check(boolean condition, String format, Object... arguments) {
        if (!condition) {
            throw new AssertionError(String.format(format, arguments));
        }
    }

    private static <T> T get(KafkaFuture<T> future) throws Exception {
        return future.get(20, TimeUnit.SECONDS);
    }

    /** The call must fail, and with exactly this error. */
    private static void refused(KafkaFuture<?> future, Class<? extends Exception> error)
            throws Exception {
        try {
            get(future);
        } catch (ExecutionException refusal) {
            check(error.isInstance(refusal.getCause()), "%s instead of %s", refusal.getCause(),
                error.getSimpleName());
            return;
        }
        check(false, "accepted, instead of %s", error.getSimpleName());
    }

    private KafkaFuture<Void> create(String topic, int partitions, int replicas,
                                     Map<String, String> configs) {
        return admin.createTopics(Set.of(new NewTopic(topic, partitions, (short) replicas)
            .configs(configs))).all();
    }

    /** The creation is answered by the controller; the broker may learn of the topic a bit later. */
    private void created(String topic, int partitions, Map<String, String> configs)
            throws Exception {
        get(create(topic, partitions, -1, configs));
        for (int tries = 0; tries < 100; tries++) {
            try {
                describe(topic);
                return;
            } catch (ExecutionException error) {
                Thread.sleep(50);
            }
        }
        describe(topic);
    }

    private TopicDescription describe(String topic) throws Exception {
        return get(admin.describeTopics(Set.of(topic)).allTopicNames()).get(topic);
    }

    private void produce(String topic, int count) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("max.block.ms", "20000");
        try (Producer<String, String> producer =
                 new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < count; i++) {
                producer.send(new ProducerRecord<>(topic, 0, "k" + i, "v" + i)).get(20,
                    TimeUnit.SECONDS);
            }
        }
    }

    private void describeCluster() throws Exception {
        DescribeClusterResult cluster = admin.describeCluster();
        Collection<Node> nodes = get(cluster.nodes());
        check(!get(cluster.clusterId()).isEmpty(), "the cluster id is empty");
        check(nodes.stream().anyMatch(n -> bootstrap.equals(n.host() + ":" + n.port())),
            "%s is not among %s", bootstrap, nodes);
        check(get(cluster.controller()) != null, "there is no controller");
    }

    private void createRefusals() throws Exception {
        created(TOPIC, 1, Map.of());
        refused(create(TOPIC, 1, -1, Map.of()), TopicExistsException.class);
        refused(create("admin-bad", 0, -1, Map.of()), InvalidPartitionsException.class);
        refused(create("admin-bad", 1, 3, Map.of()), InvalidReplicationFactorException.class);
        refused(create("admin/bad", 1, -1, Map.of()), InvalidTopicException.class);
        refused(create("admin-bad", 1, -1, Map.of("retention.ms", "soon")),
            InvalidConfigurationException.class);
        refused(create("admin-bad", 1, -1, Map.of("no.such.config", "1")),
            InvalidConfigurationException.class);
        refused(admin.deleteTopics(Set.of("admin-none")).all(),
            UnknownTopicOrPartitionException.class);
        check(!get(admin.listTopics().names()).contains("admin-bad"), "a refused topic is listed");
    }

    private void validateOnly() throws Exception {
        get(admin.createTopics(Set.of(new NewTopic("admin-dry", 1, (short) -1)),
            new CreateTopicsOptions().validateOnly(true)).all());
        check(!get(admin.listTopics().names()).contains("admin-dry"), "it was created");
    }

    private void describeById() throws Exception {
        Uuid id = describe(TOPIC).topicId();
        check(!id.equals(Uuid.ZERO_UUID), "the topic id is zero");
        TopicDescription found = get(admin.describeTopics(
            TopicCollection.ofTopicIds(Set.of(id))).allTopicIds()).get(id);
        check(TOPIC.equals(found.name()), "%s has the name %s", id, found.name());
        check(found.partitions().get(0).leader() != null, "partition 0 has no leader");
    }

    private Config configs(ConfigResource resource) throws Exception {
        return get(admin.describeConfigs(Set.of(resource)).all()).get(resource);
    }

    private void describeConfigs() throws Exception {
        created("admin-configs", 1, Map.of("retention.ms", "3600000"));
        Config topic = configs(new ConfigResource(ConfigResource.Type.TOPIC, "admin-configs"));
        ConfigEntry retention = topic.get("retention.ms");
        check("3600000".equals(retention.value()), "retention.ms is %s", retention.value());
        check(retention.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG,
            "its source is %s", retention.source());
        check(topic.get("cleanup.policy").isDefault(), "cleanup.policy is not the default");
        check("delete".equals(topic.get("cleanup.policy").value()), "cleanup.policy");
        check(topic.get("max.message.bytes") != null, "max.message.bytes is missing");
        String node = get(admin.describeCluster().nodes()).iterator().next().idString();
        Config broker = configs(new ConfigResource(ConfigResource.Type.BROKER, node));
        check(broker.get("num.partitions") != null, "the broker does not tell num.partitions");
        check(broker.get("log.dirs") != null, "the broker does not tell log.dirs");
    }

    private void alter(ConfigResource topic, String name, String value, AlterConfigOp.OpType type)
            throws Exception {
        get(admin.incrementalAlterConfigs(Map.of(topic,
            List.of(new AlterConfigOp(new ConfigEntry(name, value), type)))).all());
    }

    private void expect(ConfigResource topic, String name, String value) throws Exception {
        String got = null;
        for (int tries = 0; tries < 50; tries++) {
            got = configs(topic).get(name).value();
            if (value.equals(got)) {
                return;
            }
            Thread.sleep(100);
        }
        check(false, "%s is '%s' instead of '%s'", name, got, value);
    }

    private void alterConfigs() throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, "admin-configs");
        alter(topic, "retention.ms", "7200000", AlterConfigOp.OpType.SET);
        expect(topic, "retention.ms", "7200000");
        alter(topic, "cleanup.policy", "compact", AlterConfigOp.OpType.APPEND);
        expect(topic, "cleanup.policy", "delete,compact");
        alter(topic, "cleanup.policy", "delete", AlterConfigOp.OpType.SUBTRACT);
        expect(topic, "cleanup.policy", "compact");
        alter(topic, "cleanup.policy", "", AlterConfigOp.OpType.DELETE);
        expect(topic, "cleanup.policy", "delete");
        refused(admin.incrementalAlterConfigs(Map.of(topic, List.of(new AlterConfigOp(
            new ConfigEntry("retention.ms", "soon"), AlterConfigOp.OpType.SET)))).all(),
            InvalidConfigurationException.class);
        expect(topic, "retention.ms", "7200000");
    }

    private void createPartitions() throws Exception {
        created("admin-grow", 2, Map.of());
        get(admin.createPartitions(Map.of("admin-grow", NewPartitions.increaseTo(4))).all());
        for (int tries = 0; describe("admin-grow").partitions().size() != 4; tries++) {
            check(tries < 50, "%d partitions", describe("admin-grow").partitions().size());
            Thread.sleep(100);
        }
        refused(admin.createPartitions(Map.of("admin-grow", NewPartitions.increaseTo(3))).all(),
            InvalidPartitionsException.class);
    }

    private ListOffsetsResultInfo offset(OffsetSpec spec) throws Exception {
        return get(admin.listOffsets(Map.of(PARTITION, spec)).partitionResult(PARTITION));
    }

    private void listOffsets() throws Exception {
        produce(TOPIC, RECORDS_COUNT);
        check(offset(OffsetSpec.earliest()).offset() == 0, "earliest");
        check(offset(OffsetSpec.latest()).offset() == RECORDS_COUNT, "latest");
        ListOffsetsResultInfo newest = offset(OffsetSpec.maxTimestamp());
        check(newest.offset() >= 0 && newest.offset() < RECORDS_COUNT && newest.timestamp() > 0,
            "max-timestamp: %s", newest);
        check(offset(OffsetSpec.forTimestamp(newest.timestamp())).offset() <= newest.offset(),
            "the record found by its timestamp lies behind it");
        check(offset(OffsetSpec.forTimestamp(newest.timestamp() + 1)).offset() == -1,
            "something is newer than the newest");
        check(offset(OffsetSpec.earliestLocal()).offset() == 0, "earliest local");
    }

    private void describeProducers() throws Exception {
        List<ProducerState> states = get(admin.describeProducers(Set.of(PARTITION))
            .partitionResult(PARTITION)).activeProducers();
        check(states.size() == 1, "%d producers instead of 1", states.size());
        check(states.get(0).lastSequence() == RECORDS_COUNT - 1, "the last sequence is %d",
            states.get(0).lastSequence());
        check(states.get(0).currentTransactionStartOffset().equals(OptionalLong.empty()),
            "a transaction is open");
    }

    private void logDirs() throws Exception {
        int node = get(admin.describeCluster().nodes()).iterator().next().id();
        Map<String, LogDirDescription> dirs =
            get(admin.describeLogDirs(Set.of(node)).allDescriptions()).get(node);
        Map<TopicPartition, ReplicaInfo> replicas = new HashMap<>();
        for (LogDirDescription dir : dirs.values()) {
            check(dir.error() == null, "%s", dir.error());
            replicas.putAll(dir.replicaInfos());
        }
        check(replicas.containsKey(PARTITION), "%s is in no log directory", PARTITION);
        check(replicas.get(PARTITION).size() > RECORDS_COUNT * 4, "%s has %d bytes", PARTITION,
            replicas.get(PARTITION).size());
    }

    private void deleteRecords() throws Exception {
        long low = get(admin.deleteRecords(Map.of(PARTITION, RecordsToDelete.beforeOffset(40)))
            .lowWatermarks().get(PARTITION)).lowWatermark();
        check(low == 40, "the low watermark is %d", low);
        check(offset(OffsetSpec.earliest()).offset() == 40, "earliest is not 40");
        refused(admin.deleteRecords(Map.of(PARTITION, RecordsToDelete.beforeOffset(1000))).all(),
            OffsetOutOfRangeException.class);
        low = get(admin.deleteRecords(Map.of(PARTITION, RecordsToDelete.beforeOffset(-1)))
            .lowWatermarks().get(PARTITION)).lowWatermark();
        check(low == RECORDS_COUNT, "after deleting everything the low watermark is %d", low);
    }

    /** A topic of the same name has a new id and starts at offset 0. */
    private void deleteRecreate() throws Exception {
        Uuid before = describe(TOPIC).topicId();
        get(admin.deleteTopics(Set.of(TOPIC)).all());
        for (int tries = 0; get(admin.listTopics().names()).contains(TOPIC); tries++) {
            check(tries < 100, "still listed after it was deleted");
            Thread.sleep(50);
        }
        created(TOPIC, 1, Map.of());
        check(!describe(TOPIC).topicId().equals(before), "the topic id was used again");
        produce(TOPIC, 5);
        check(offset(OffsetSpec.earliest()).offset() == 0, "earliest is not 0");
        check(offset(OffsetSpec.latest()).offset() == 5, "latest is not 5");
    }
}
