import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What a Java program does with a Kafka broker, feature by feature; the producer's defaults
 * (acks=all and idempotence) hold unless a feature says otherwise.
 *
 * <p>Usage: {@code java -cp ... RoundTrip.java BOOTSTRAP}. Prints {@code ok NAME} or
 * {@code FAIL NAME: reason} for each feature; ends with 1 when one failed.
 */
public final class RoundTrip {
    private static final int SERIES_COUNT = 500;
    /** An hour ago: a topic's retention deletes what is too old while the program runs. */
    private static final long SERIES_TIME_MS = System.currentTimeMillis() - 3_600_000;
    private static final Duration WAIT = Duration.ofSeconds(20);

    private final String bootstrap;
    private boolean failed;

    private RoundTrip(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    /** One feature; whatever it throws is the reason it failed. */
    private interface Feature {
        void run() throws Exception;
    }

    public static void main(String[] args) {
        if (args.length != 1) {
            System.err.println("usage: RoundTrip BOOTSTRAP");
            System.exit(2);
        }
        RoundTrip program = new RoundTrip(args[0]);
        program.runAll();
        System.exit(program.failed ? 1 : 0);
    }

    private void runAll() {
        feature("topics", this::topics);
        feature("auto-create", () -> roundTrip("java-auto", series(10), Map.of()));
        feature("produce-consume", () -> created("java-none", Map.of()));
        for (String codec : List.of("gzip", "snappy", "lz4", "zstd")) {
            feature(codec, () -> created("java-" + codec, Map.of("compression.type", codec)));
        }
        feature("headers", this::headers);
        feature("null-key-value", this::nulls);
        feature("900kb", () -> large("java-900kb", 900_000, Map.of(), Map.of()));
        feature("8mb", () -> large("java-8mb", 8_000_000, Map.of("max.message.bytes", "9000000"),
            Map.of("max.request.size", "9000000")));
        feature("too-large", this::tooLarge);
        feature("timestamps", () -> created("java-timestamps", Map.of()));
        feature("offsets-by-time", this::offsetsByTime);
        for (String acks : List.of("0", "1", "all")) {
            feature("acks-" + acks, () -> created("java-acks-" + acks,
                Map.of("acks", acks, "enable.idempotence", "false")));
        }
        feature("idempotence", () -> created("java-idempotence",
            Map.of("enable.idempotence", "true")));
        feature("many-partitions", this::manyPartitions);
        feature("long-poll", this::longPoll);
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

    private static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    private Admin admin() {
        return Admin.create(Map.of("bootstrap.servers", bootstrap,
            "default.api.timeout.ms", "20000", "request.timeout.ms", "10000"));
    }

    private Producer<byte[], byte[]> producer(Map<String, String> extra) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("max.block.ms", "20000");
        properties.put("request.timeout.ms", "10000");
        properties.put("delivery.timeout.ms", "20000");
        properties.put("linger.ms", "50");
        properties.putAll(extra);
        return new KafkaProducer<>(properties, new ByteArraySerializer(),
            new ByteArraySerializer());
    }

    /** A consumer without a group: it is assigned partitions and told where to start. */
    private Consumer<byte[], byte[]> consumer() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("default.api.timeout.ms", "20000");
        properties.put("auto.offset.reset", "none");
        return new KafkaConsumer<>(properties, new ByteArrayDeserializer(),
            new ByteArrayDeserializer());
    }

    private void create(String topic, int partitions, Map<String, String> configs)
            throws Exception {
        try (Admin admin = admin()) {
            NewTopic request = new NewTopic(topic, partitions, (short) -1).configs(configs);
            admin.createTopics(Set.of(request)).all().get(20, TimeUnit.SECONDS);
            // The controller has answered; the broker may learn of the topic a bit later.
            long deadline = System.nanoTime() + WAIT.toNanos();
            while (!admin.listTopics().names().get(20, TimeUnit.SECONDS).contains(topic)) {
                check(System.nanoTime() < deadline, "%s is not listed after its creation", topic);
                Thread.sleep(20);
            }
        }
    }

    private static ProducerRecord<byte[], byte[]> record(Long timestamp, byte[] key, byte[] value) {
        return new ProducerRecord<>("", 0, timestamp, key, value);
    }

    /** Records that compress well, one second apart. */
    private static List<ProducerRecord<byte[], byte[]>> series(int count) {
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            records.add(record(SERIES_TIME_MS + i * 1000L, bytes("key-" + i),
                bytes("record " + i + " " + "0".repeat(90))));
        }
        return records;
    }

    private void created(String topic, Map<String, String> properties) throws Exception {
        create(topic, 1, Map.of());
        roundTrip(topic, series(SERIES_COUNT), properties);
    }

    /** Sends the records to partition 0 of an empty topic, and reads them back. */
    private void roundTrip(String topic, List<ProducerRecord<byte[], byte[]>> records,
                           Map<String, String> properties) throws Exception {
        produce(topic, 0, records, properties);
        try (Consumer<byte[], byte[]> consumer = consumer()) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            compare(records, read(consumer, records.size()));
        }
    }

    private void produce(String topic, int partition, List<ProducerRecord<byte[], byte[]>> records,
                         Map<String, String> properties) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (Producer<byte[], byte[]> producer = producer(properties)) {
            for (ProducerRecord<byte[], byte[]> r : records) {
                sent.add(producer.send(new ProducerRecord<>(topic, partition, r.timestamp(),
                    r.key(), r.value(), r.headers())));
            }
            producer.flush();
            for (int i = 0; i < sent.size(); i++) {
                RecordMetadata metadata = sent.get(i).get(20, TimeUnit.SECONDS);
                check(!metadata.hasOffset() || metadata.offset() == i,
                    "record %d was acknowledged at offset %d", i, metadata.offset());
                check(metadata.hasOffset() || "0".equals(properties.get("acks")),
                    "record %d was acknowledged without an offset", i);
            }
        }
    }

    private static List<ConsumerRecord<byte[], byte[]>> read(Consumer<byte[], byte[]> consumer,
                                                             int count) {
        List<ConsumerRecord<byte[], byte[]>> got = new ArrayList<>();
        long deadline = System.nanoTime() + WAIT.toNanos();
        while (got.size() < count && System.nanoTime() < deadline) {
            consumer.poll(Duration.ofMillis(500)).forEach(got::add);
        }
        check(got.size() == count, "%d records arrived instead of %d", got.size(), count);
        return got;
    }

    private static void compare(List<ProducerRecord<byte[], byte[]>> sent,
                                List<ConsumerRecord<byte[], byte[]>> got) {
        for (int i = 0; i < sent.size(); i++) {
            ProducerRecord<byte[], byte[]> s = sent.get(i);
            ConsumerRecord<byte[], byte[]> g = got.get(i);
            check(g.offset() == i, "offset %d instead of %d", g.offset(), i);
            check(Arrays.equals(s.key(), g.key()), "the key at offset %d differs", i);
            check(Arrays.equals(s.value(), g.value()), "the value at offset %d differs", i);
            check(g.timestampType() == TimestampType.CREATE_TIME, "%s", g.timestampType());
            check(s.timestamp() == null || s.timestamp() == g.timestamp(),
                "timestamp %d instead of %d", g.timestamp(), s.timestamp());
            compareHeaders(s.headers().toArray(), g.headers().toArray());
        }
    }

    private static void compareHeaders(Header[] sent, Header[] got) {
        check(sent.length == got.length, "%d headers instead of %d", got.length, sent.length);
        for (int i = 0; i < sent.length; i++) {
            check(sent[i].key().equals(got[i].key()), "header %d is '%s'", i, got[i].key());
            check(Arrays.equals(sent[i].value(), got[i].value()),
                "the value of header %d differs", i);
        }
    }

    private void topics() throws Exception {
        String topic = "java-topics";
        create(topic, 3, Map.of("retention.ms", "3600000"));
        try (Admin admin = admin()) {
            check(admin.listTopics().names().get().contains(topic), "not listed after creation");
            int count = admin.describeTopics(Set.of(topic)).allTopicNames().get().get(topic)
                .partitions().size();
            check(count == 3, "%d partitions instead of 3", count);
            admin.deleteTopics(Set.of(topic)).all().get(20, TimeUnit.SECONDS);
            long deadline = System.nanoTime() + WAIT.toNanos();
            while (admin.listTopics().names().get().contains(topic)) {
                check(System.nanoTime() < deadline, "still listed after it was deleted");
                Thread.sleep(100);
            }
        }
    }

    private void headers() throws Exception {
        ProducerRecord<byte[], byte[]> record = record(null, bytes("k"), bytes("v"));
        record.headers().add("trace", bytes("1")).add("empty", bytes("")).add("none", null)
            .add("trace", bytes("2"));
        create("java-headers", 1, Map.of());
        roundTrip("java-headers", List.of(record), Map.of());
    }

    private void nulls() throws Exception {
        create("java-nulls", 1, Map.of());
        roundTrip("java-nulls", List.of(record(null, bytes("key only"), null),
            record(null, null, bytes("value only")), record(null, null, null),
            record(null, bytes(""), bytes(""))), Map.of());
    }

    private void large(String topic, int size, Map<String, String> topicConfigs,
                       Map<String, String> producerConfigs) throws Exception {
        Random random = new Random(7);
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            byte[] value = new byte[size];
            random.nextBytes(value);
            records.add(record(null, bytes("large-" + i), value));
        }
        create(topic, 1, topicConfigs);
        roundTrip(topic, records, producerConfigs);
    }

    /** A record above the topic's limit is refused with Kafka's error; the topic stays usable. */
    private void tooLarge() throws Exception {
        String topic = "java-too-large";
        create(topic, 1, Map.of());
        try {
            produce(topic, 0, List.of(record(null, null, new byte[2_000_000])),
                Map.of("max.request.size", "9000000"));
            check(false, "2 MB were accepted");
        } catch (ExecutionException error) {
            check(error.getCause() instanceof RecordTooLargeException, "%s", error.getCause());
        }
        roundTrip(topic, series(5), Map.of());
    }

    private void offsetsByTime() {
        TopicPartition partition = new TopicPartition("java-timestamps", 0);
        long last = SERIES_TIME_MS + (SERIES_COUNT - 1) * 1000L;
        long[][] cases = {{0, 0}, {SERIES_TIME_MS + 5000, 5}, {SERIES_TIME_MS + 5001, 6},
            {last, SERIES_COUNT - 1}};
        try (Consumer<byte[], byte[]> consumer = consumer()) {
            for (long[] c : cases) {
                OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, c[0]))
                    .get(partition);
                check(found != null && found.offset() == c[1], "time %d is at %s, not at offset %d",
                    c[0], found, c[1]);
                check(found.timestamp() == SERIES_TIME_MS + c[1] * 1000,
                    "the record found at offset %d has timestamp %d", c[1], found.timestamp());
            }
            check(consumer.offsetsForTimes(Map.of(partition, last + 1)).get(partition) == null,
                "something was found after the last timestamp");
            check(consumer.beginningOffsets(Set.of(partition)).get(partition) == 0, "beginning");
            check(consumer.endOffsets(Set.of(partition)).get(partition) == SERIES_COUNT, "end");
        }
    }

    /** One producer and one consumer over 16 partitions: a fetch session with many members. */
    private void manyPartitions() throws Exception {
        String topic = "java-partitions";
        create(topic, 16, Map.of());
        List<TopicPartition> partitions = new ArrayList<>();
        for (int p = 0; p < 16; p++) {
            produce(topic, p, series(50), Map.of());
            partitions.add(new TopicPartition(topic, p));
        }
        try (Consumer<byte[], byte[]> consumer = consumer()) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            List<ConsumerRecord<byte[], byte[]>> got = read(consumer, 16 * 50);
            for (TopicPartition partition : partitions) {
                List<ConsumerRecord<byte[], byte[]>> mine = new ArrayList<>(got);
                mine.removeIf(r -> r.partition() != partition.partition());
                check(mine.size() == 50, "%d records of %s", mine.size(), partition);
                compare(series(50), mine);
            }
        }
    }

    /** A consumer that waits at the end gets a new record long before its fetch would time out. */
    private void longPoll() throws Exception {
        String topic = "java-long-poll";
        TopicPartition partition = new TopicPartition(topic, 0);
        create(topic, 1, Map.of());
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("fetch.max.wait.ms", "8000");
        try (Consumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties,
                new ByteArrayDeserializer(), new ByteArrayDeserializer());
             Producer<byte[], byte[]> producer = producer(Map.of("linger.ms", "0"))) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 0);
            producer.partitionsFor(topic);
            check(consumer.poll(Duration.ofSeconds(2)).isEmpty(), "the new topic is not empty");
            long start = System.nanoTime();
            producer.send(new ProducerRecord<>(topic, 0, bytes("k"), bytes("v"))).get();
            check(read(consumer, 1).size() == 1, "nothing arrived");
            long waited = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start);
            check(waited < 3000, "the record took %d ms", waited);
            check(Objects.equals(consumer.position(partition), 1L), "the position is not 1");
        }
    }
}
