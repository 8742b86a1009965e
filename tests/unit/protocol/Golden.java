/*
 * Prints golden_vectors.h: messages and batches as Kafka's own client library writes them.
 *
 *     java -cp 'LIB/*' Golden.java >golden_vectors.h
 *
 * where LIB holds kafka-clients 4.2.0 and its dependencies (bench/systems/kafka/install fetches
 * them). The expected values are in test_golden.c, by hand.
 */
import java.nio.ByteBuffer;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.requests.RequestHeader;

public class Golden {
    static final Uuid TOPIC_ID = new Uuid(0x0123456789abcdefL, 0x7edcba9876543210L);

    static void emit(String name, ByteBuffer buffer) {
        StringBuilder out = new StringBuilder("#define GOLDEN_" + name.toUpperCase() + " \\\n");
        ByteBuffer bytes = buffer.duplicate();
        while (bytes.hasRemaining()) {
            out.append("    \"");
            for (int i = 0; i < 40 && bytes.hasRemaining(); i++) {
                out.append(String.format("%02x", bytes.get()));
            }
            out.append(bytes.hasRemaining() ? "\" \\\n" : "\"\n");
        }
        System.out.println(out);
    }

    static void emit(String name, ApiMessage message, int version) {
        emit(name + "_v" + version,
             MessageUtil.toByteBufferAccessor(message, (short) version).buffer());
    }

    static void emitHeader(ApiKeys key, int version) {
        RequestHeader header = new RequestHeader(key, (short) version, "golden", 77);
        emit("header_" + key.name() + "_v" + version,
             MessageUtil.toByteBufferAccessor(header.data(), header.headerVersion()).buffer());
    }

    static MemoryRecords batch(Compression compression) {
        return MemoryRecords.withRecords(RecordBatch.MAGIC_VALUE_V2, 0L, compression,
            TimestampType.CREATE_TIME, 4711L, (short) 3, 12, RecordBatch.NO_PARTITION_LEADER_EPOCH,
            false,
            new SimpleRecord(1700000000000L, "key".getBytes(), "value".getBytes(),
                new RecordHeader[] {new RecordHeader("h", "x".getBytes()),
                                    new RecordHeader("n", null)}),
            new SimpleRecord(1700000000123L, null, "v".repeat(300).getBytes()),
            new SimpleRecord(1699999999000L, "gone".getBytes(), null));
    }

    static void produce() {
        for (int version : new int[] {3, 8, 9, 13}) {
            ProduceRequestData.TopicProduceData topic = new ProduceRequestData.TopicProduceData()
                .setPartitionData(List.of(new ProduceRequestData.PartitionProduceData()
                    .setIndex(5).setRecords(batch(Compression.NONE))));
            if (version >= 13) {
                topic.setTopicId(TOPIC_ID);
            } else {
                topic.setName("orders");
            }
            ProduceRequestData data = new ProduceRequestData().setAcks((short) -1)
                .setTimeoutMs(30000);
            data.topicData().add(topic);
            emit("produce_request", data, version);
            emitHeader(ApiKeys.PRODUCE, version);
        }
        for (int version : new int[] {3, 8, 10}) {
            ProduceResponseData.PartitionProduceResponse partition =
                new ProduceResponseData.PartitionProduceResponse().setIndex(5)
                    .setErrorCode((short) 87).setBaseOffset(42).setLogStartOffset(7)
                    .setErrorMessage("bad");
            if (version >= 8) {
                partition.setRecordErrors(
                    List.of(new ProduceResponseData.BatchIndexAndErrorMessage()
                        .setBatchIndex(1).setBatchIndexErrorMessage("no key")));
            }
            ProduceResponseData data = new ProduceResponseData().setThrottleTimeMs(9);
            data.responses().add(new ProduceResponseData.TopicProduceResponse().setName("orders")
                .setPartitionResponses(List.of(partition)));
            if (version >= 10) {
                partition.setCurrentLeader(new ProduceResponseData.LeaderIdAndEpoch()
                    .setLeaderId(2).setLeaderEpoch(6));
                data.nodeEndpoints().add(new ProduceResponseData.NodeEndpoint().setNodeId(2)
                    .setHost("b").setPort(9093));
            }
            emit("produce_response", data, version);
        }
    }

    static void fetch() {
        for (int version : new int[] {4, 11, 12, 18}) {
            FetchRequestData.FetchTopic topic = new FetchRequestData.FetchTopic()
                .setPartitions(List.of(new FetchRequestData.FetchPartition().setPartition(5)
                    .setFetchOffset(1000).setPartitionMaxBytes(1 << 20)));
            FetchRequestData data = new FetchRequestData().setMaxWaitMs(500).setMinBytes(1)
                .setMaxBytes(50 << 20).setIsolationLevel((byte) 1);
            if (version >= 13) {
                topic.setTopicId(TOPIC_ID);
            } else {
                topic.setTopic("orders");
            }
            if (version >= 12) {
                topic.partitions().get(0).setCurrentLeaderEpoch(4);
                data.setClusterId("c1");
            }
            if (version >= 11) {
                data.setSessionId(8).setSessionEpoch(3).setRackId("r1");
            }
            data.setTopics(List.of(topic));
            emit("fetch_request", data, version);
        }
        for (int version : new int[] {4, 12, 18}) {
            FetchResponseData.PartitionData partition = new FetchResponseData.PartitionData()
                .setPartitionIndex(5).setHighWatermark(1003).setLastStableOffset(1003)
                .setAbortedTransactions(null).setRecords(batch(Compression.NONE));
            FetchResponseData.FetchableTopicResponse topic =
                new FetchResponseData.FetchableTopicResponse().setPartitions(List.of(partition));
            FetchResponseData data = new FetchResponseData().setResponses(List.of(topic));
            if (version >= 13) {
                topic.setTopicId(TOPIC_ID);
            } else {
                topic.setTopic("orders");
            }
            if (version >= 12) {
                partition.setDivergingEpoch(new FetchResponseData.EpochEndOffset()
                    .setEpoch(2).setEndOffset(900));
                data.setSessionId(8);
            }
            if (version >= 16) {
                data.nodeEndpoints().add(new FetchResponseData.NodeEndpoint().setNodeId(2)
                    .setHost("b").setPort(9093).setRack("r2"));
            }
            emit("fetch_response", data, version);
        }
    }

    public static void main(String[] arguments) {
        System.out.println("/* Printed by Golden.java from kafka-clients 4.2.0: do not edit. */");
        System.out.println("#ifndef TWINLOG_GOLDEN_VECTORS_H\n#define TWINLOG_GOLDEN_VECTORS_H\n");
        System.out.println("/* clang-format off */");
        produce();
        fetch();
        emit("batch_none", batch(Compression.NONE).buffer());
        emit("batch_gzip", batch(Compression.gzip().build()).buffer());
        emit("batch_snappy", batch(Compression.snappy().build()).buffer());
        emit("batch_lz4", batch(Compression.lz4().build()).buffer());
        emit("batch_zstd", batch(Compression.zstd().build()).buffer());
        System.out.println("/* clang-format on */\n\n#endif");
    }
}
