import com.fasterxml.jackson.databind.JsonNode;

import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.KRaftVersionRecordJsonConverter;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.LeaderChangeMessageJsonConverter;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotFooterRecordJsonConverter;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecordJsonConverter;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.message.VotersRecordJsonConverter;
import org.apache.kafka.common.metadata.MetadataJsonConverters;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.ControlRecordUtils;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * Records of the three internal topics, in every kind and version: their bytes as Kafka writes them, and as JSON what Kafka's own
 * converters, with which its formatters print them, make of them after they were read again.
 */
final class InternalCases {
    private static final int SAMPLES = 4;

    private InternalCases() {
    }

    static void write(Golden golden) throws Exception {
        write(golden, "consumer_offsets", "every kind and version of record in __consumer_offsets, with random fields", groups());
        write(golden, "transaction_state", "every version of record in __transaction_state, with random fields", transactions());
        write(golden, "cluster_metadata", "every kind and version of record in __cluster_metadata, with random fields", metadata());
    }

    private static void write(Golden golden, String name, String about, List<Map<String, Object>> records) throws Exception {
        Map<String, Object> document = Golden.headline(name, about);
        document.put("records", records);
        golden.folder("internal");
        golden.lines("internal/" + name + ".json", document);
    }

    private static List<Map<String, Object>> groups() throws Exception {
        RandomMessages random = new RandomMessages(1);
        List<Map<String, Object>> records = new ArrayList<>();
        for (var type : org.apache.kafka.coordinator.group.generated.CoordinatorRecordType.values())
            for (short version : RandomMessages.versions(type.lowestSupportedVersion(), type.highestSupportedVersion()))
                for (int sample = 0; sample < SAMPLES; sample++) {
                    ApiMessage key = random.fill(type.newRecordKey(), 0);
                    ApiMessage value = random.fill(type.newRecordValue(), version);
                    byte[] keyBytes = MessageUtil.toCoordinatorTypePrefixedBytes(key);
                    byte[] valueBytes = MessageUtil.toVersionPrefixedBytes(version, value);
                    ApiMessage readKey = read(type.newRecordKey(), keyBytes, (short) 0);
                    ApiMessage readValue = read(type.newRecordValue(), valueBytes, version);
                    records.add(record(type.name(), version, keyBytes, valueBytes,
                        org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters.writeRecordKeyAsJson(readKey),
                        org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters.writeRecordValueAsJson(readValue, version)));
                }
        return records;
    }

    private static List<Map<String, Object>> transactions() throws Exception {
        RandomMessages random = new RandomMessages(2);
        List<Map<String, Object>> records = new ArrayList<>();
        for (var type : org.apache.kafka.coordinator.transaction.generated.CoordinatorRecordType.values())
            for (short version : RandomMessages.versions(type.lowestSupportedVersion(), type.highestSupportedVersion()))
                for (int sample = 0; sample < 5 * SAMPLES; sample++) {
                    ApiMessage key = random.fill(type.newRecordKey(), 0);
                    var value = (org.apache.kafka.coordinator.transaction.generated.TransactionLogValue) random.fill(type.newRecordValue(), version);
                    value.setTransactionStatus((byte) random.below(8));
                    byte[] keyBytes = MessageUtil.toCoordinatorTypePrefixedBytes(key);
                    byte[] valueBytes = MessageUtil.toVersionPrefixedBytes(version, value);
                    ApiMessage readKey = read(type.newRecordKey(), keyBytes, (short) 0);
                    ApiMessage readValue = read(type.newRecordValue(), valueBytes, version);
                    records.add(record(type.name(), version, keyBytes, valueBytes,
                        org.apache.kafka.coordinator.transaction.generated.CoordinatorRecordJsonConverters.writeRecordKeyAsJson(readKey),
                        org.apache.kafka.coordinator.transaction.generated.CoordinatorRecordJsonConverters.writeRecordValueAsJson(readValue, version)));
                }
        return records;
    }

    private static List<Map<String, Object>> metadata() throws Exception {
        RandomMessages random = new RandomMessages(3);
        List<Map<String, Object>> records = new ArrayList<>();
        MetadataRecordSerde serde = MetadataRecordSerde.INSTANCE;
        for (MetadataRecordType type : MetadataRecordType.values())
            for (short version : RandomMessages.versions(type.lowestSupportedVersion(), type.highestSupportedVersion()))
                for (int sample = 0; sample < SAMPLES; sample++) {
                    ApiMessage message = random.fill(type.newMetadataRecord(), version);
                    ApiMessageAndVersion data = new ApiMessageAndVersion(message, version);
                    ObjectSerializationCache cache = new ObjectSerializationCache();
                    ByteBuffer bytes = ByteBuffer.allocate(serde.recordSize(data, cache));
                    serde.write(data, cache, new ByteBufferAccessor(bytes));
                    bytes.flip();
                    ApiMessageAndVersion read = serde.read(new ByteBufferAccessor(bytes.duplicate()), bytes.remaining());
                    records.add(record(type.name(), version, null, bytes.array(), null, MetadataJsonConverters.writeJson(read.message(), version)));
                }
        controlRecords(random, records);
        return records;
    }

    /** What Raft itself writes. Their JSON is of the version that their own first field says. */
    private static void controlRecords(RandomMessages random, List<Map<String, Object>> records) throws Exception {
        for (int sample = 0; sample < SAMPLES; sample++) {
            for (short version = 0; version <= 1; version++) {
                LeaderChangeMessage leader = random.fill(new LeaderChangeMessage(), version).setVersion(version);
                records.add(control(ControlRecordType.LEADER_CHANGE, version, leader, LeaderChangeMessageJsonConverter.write(leader, version)));
            }
            SnapshotHeaderRecord header = random.fill(new SnapshotHeaderRecord(), 0).setVersion((short) 0);
            records.add(control(ControlRecordType.SNAPSHOT_HEADER, (short) 0, header, SnapshotHeaderRecordJsonConverter.write(header, (short) 0)));
            SnapshotFooterRecord footer = random.fill(new SnapshotFooterRecord(), 0).setVersion((short) 0);
            records.add(control(ControlRecordType.SNAPSHOT_FOOTER, (short) 0, footer, SnapshotFooterRecordJsonConverter.write(footer, (short) 0)));
            KRaftVersionRecord feature = random.fill(new KRaftVersionRecord(), 0).setVersion((short) 0);
            records.add(control(ControlRecordType.KRAFT_VERSION, (short) 0, feature, KRaftVersionRecordJsonConverter.write(feature, (short) 0)));
            VotersRecord voters = random.fill(new VotersRecord(), 0).setVersion((short) 0);
            records.add(control(ControlRecordType.KRAFT_VOTERS, (short) 0, voters, VotersRecordJsonConverter.write(voters, (short) 0)));
        }
    }

    private static Map<String, Object> control(ControlRecordType type, short version, Message message, JsonNode json) {
        ByteBuffer key = ByteBuffer.allocate(4);
        type.recordKey().writeTo(key);
        ByteBuffer value = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] bytes = new byte[value.remaining()];
        value.duplicate().get(bytes);
        if (type == ControlRecordType.LEADER_CHANGE && version == ControlRecordUtils.LEADER_CHANGE_CURRENT_VERSION)
            ControlRecordUtils.deserializeLeaderChangeMessage(value);
        return record(type.name(), version, key.array(), bytes, null, json);
    }

    private static ApiMessage read(ApiMessage message, byte[] bytes, short version) {
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        buffer.getShort();
        message.read(new ByteBufferAccessor(buffer), version);
        if (buffer.hasRemaining())
            throw new IllegalStateException("not all was read: " + message);
        return message;
    }

    private static Map<String, Object> record(String kind, short version, byte[] key, byte[] value, JsonNode keyJson, JsonNode valueJson) {
        return Json.object("kind", kind.toLowerCase(Locale.ROOT), "version", version,
            "key", key == null ? null : HexFormat.of().formatHex(key), "value", HexFormat.of().formatHex(value),
            "key_json", keyJson, "value_json", valueJson);
    }
}
