import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.DefaultRecordBatch;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** What Kafka reads from record batches, as the Python tests expect it. */
final class Describe {
    private Describe() {
    }

    /** The batches of one buffer; throws what Kafka throws. */
    static List<Object> batches(ByteBuffer bytes) {
        List<Object> batches = new ArrayList<>();
        into(bytes, batches);
        return batches;
    }

    /** The same into a list, which has the batches before the one that Kafka refuses. */
    static void into(ByteBuffer bytes, List<Object> into) {
        int position = 0;
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(bytes).batches()) {
            batch.ensureValid();
            into.add(batch(batch, position));
            position += batch.sizeInBytes();
        }
    }

    private static Map<String, Object> batch(RecordBatch batch, int position) {
        List<Object> records = new ArrayList<>();
        for (Record record : batch)
            records.add(record(batch, record));
        Map<String, Object> fields = Json.object(
            "base_offset", batch.baseOffset(),
            "last_offset", batch.lastOffset(),
            "next_offset", batch.nextOffset(),
            "count", batch.countOrNull(),
            "base_sequence", batch.baseSequence(),
            "last_sequence", batch.lastSequence(),
            "producer_id", batch.producerId(),
            "producer_epoch", batch.producerEpoch(),
            "partition_leader_epoch", batch.partitionLeaderEpoch(),
            "is_transactional", batch.isTransactional(),
            "is_control", batch.isControlBatch(),
            "delete_horizon_ms", batch.deleteHorizonMs().isPresent() ? batch.deleteHorizonMs().getAsLong() : null,
            "position", position,
            "size_bytes", batch.sizeInBytes(),
            "timestamp_type", batch.timestampType().toString(),
            "max_timestamp_ms", batch.maxTimestamp(),
            "magic", batch.magic(),
            "compression", batch.compressionType().name,
            "crc", batch.checksum(),
            "is_valid", batch.isValid());
        if (batch instanceof DefaultRecordBatch v2)
            fields.put("base_timestamp_ms", v2.baseTimestamp());
        fields.put("records", records);
        return fields;
    }

    private static Map<String, Object> record(RecordBatch batch, Record record) {
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            List<Object> pair = new ArrayList<>();
            pair.add(header.key());
            pair.add(Json.bytes(header.value()));
            headers.add(pair);
        }
        Map<String, Object> fields = Json.object(
            "offset", record.offset(),
            "timestamp_ms", record.timestamp(),
            "key", Json.bytes(record.key()),
            "value", Json.bytes(record.value()),
            "headers", headers,
            "sequence", record.sequence());
        if (batch.isControlBatch())
            describeControl(record, fields);
        return fields;
    }

    private static void describeControl(Record record, Map<String, Object> fields) {
        ControlRecordType type = ControlRecordType.parse(record.key());
        fields.put("control_type", type.name());
        if (type == ControlRecordType.ABORT || type == ControlRecordType.COMMIT)
            fields.put("coordinator_epoch", EndTransactionMarker.deserialize(record).coordinatorEpoch());
    }
}
