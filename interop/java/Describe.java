import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.DefaultRecordBatch;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.utils.AppInfoParser;

import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;

/**
 * Prints what Kafka reads from files of record batches: {@code Describe FILE...}, one line of JSON per file.
 *
 * <p>Each file is read twice, as a broker does (from the file) and as a consumer does (from memory), and both
 * must see the same batches. A file that Kafka refuses gets an "error" field beside the batches before it.
 */
public final class Describe {
    private Describe() {
    }

    public static void main(String[] args) throws IOException {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String name : args)
            out.println(Json.line(file(new File(name))));
        out.flush();
    }

    static Map<String, Object> file(File file) {
        List<Object> batches = new ArrayList<>();
        Map<String, Object> document = Json.object(
            "file", file.getPath(),
            "kafka_version", AppInfoParser.getVersion(),
            "size_bytes", file.length(),
            "batches", batches);
        // Damaged lengths can also end in an attempt to allocate far too much.
        try {
            ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(file.toPath()));
            describe(bytes, batches);
            compareWithBroker(file, bytes);
        } catch (Exception | OutOfMemoryError e) {
            document.put("error", e.toString());
        }
        return document;
    }

    /** The batches of one buffer; throws what Kafka throws. */
    static List<Object> batches(ByteBuffer bytes) {
        List<Object> batches = new ArrayList<>();
        describe(bytes, batches);
        return batches;
    }

    private static void describe(ByteBuffer bytes, List<Object> into) {
        int position = 0;
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(bytes).batches()) {
            batch.ensureValid();
            into.add(batch(batch, position));
            position += batch.sizeInBytes();
        }
    }

    private static void compareWithBroker(File file, ByteBuffer bytes) throws IOException {
        // Closed by hand: FileRecords.close() would trim the file it was given to read.
        FileRecords onDisk = FileRecords.open(file, false);
        try {
            Iterator<? extends RecordBatch> fromFile = onDisk.batches().iterator();
            for (RecordBatch inMemory : MemoryRecords.readableRecords(bytes).batches()) {
                RecordBatch batch = fromFile.next();
                batch.ensureValid();
                if (!headline(batch).equals(headline(inMemory)))
                    throw new IllegalStateException("broker reads " + headline(batch)
                        + ", consumer reads " + headline(inMemory));
            }
            if (fromFile.hasNext())
                throw new IllegalStateException("only the broker reads " + headline(fromFile.next()));
        } finally {
            onDisk.closeHandlers();
        }
    }

    private static List<Object> headline(RecordBatch batch) {
        return List.of(batch.magic(), batch.baseOffset(), batch.lastOffset(), batch.sizeInBytes(),
            batch.maxTimestamp(), batch.checksum());
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
