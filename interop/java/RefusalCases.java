import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.MemoryRecordsBuilder;

import java.io.IOException;
import java.nio.ByteBuffer;

/** What the leader refuses, next to what it just accepts. */
final class RefusalCases {
    private static final long T = Golden.T;
    /** Where the fields of the first record of a small uncompressed batch are: every number takes one byte. */
    private static final int RECORD_LENGTH = Inputs.RECORDS;
    private static final int OFFSET_DELTA = Inputs.RECORDS + 3;
    private static final int KEY_LENGTH = Inputs.RECORDS + 4;
    private static final int HEADER_COUNT = Inputs.RECORDS + 10;

    private RefusalCases() {
    }

    static void write(Golden golden) throws IOException {
        framing(golden);
        headers(golden);
        records(golden);
        sizes(golden);
        keys(golden);
        timestamps(golden);
    }

    private static void framing(Golden golden) throws IOException {
        ByteBuffer batch = Inputs.at(T, T);
        byte[] corrupt = new byte[40];
        new Recorder(golden, "refused-framing", "Inputs that are not exactly one whole v2 batch", Logs.config())
            .append(0, ByteBuffer.allocate(0))
            .append(0, ByteBuffer.wrap(new byte[10]))
            .append(0, Inputs.cut(batch, 17)).append(0, Inputs.cut(batch, 60)).append(0, Inputs.cut(batch, batch.limit() - 1))
            .append(0, Samples.concat(batch, Inputs.cut(batch, 10)))
            .append(0, Samples.concat(batch, Inputs.cut(batch, 60)))
            .append(0, Samples.concat(batch, ByteBuffer.wrap(corrupt)))
            .append(0, ByteBuffer.wrap(corrupt))
            .append(0, Samples.concat(batch, batch))
            .append(0, Samples.batch().magic(0).of(Samples.untimed("a", "1")))
            .append(0, Samples.batch().magic(1).of(Samples.record(T, "a", "1")))
            .append(0, Samples.batch().magic(1).codec(CompressionType.GZIP).of(Samples.record(T, "a", "1")))
            .append(0, Samples.concat(batch, Samples.batch().magic(1).of(Samples.record(T, "a", "1"))))
            .append(0, Inputs.spoilt(batch, bytes -> bytes.put(Inputs.MAGIC, (byte) 3)))
            .append(0, Inputs.spoilt(batch, bytes -> bytes.put(Inputs.MAGIC, (byte) -1)))
            .append(0, Inputs.spoilt(batch, bytes -> bytes.put(Inputs.MAGIC, (byte) 1)))
            .append(0, batch).finish();
    }

    private static void headers(Golden golden) throws IOException {
        ByteBuffer batch = Inputs.at(T, T);
        new Recorder(golden, "refused-headers", "Header fields that a client must not send", Logs.config())
            .append(0, Samples.batch().base(5).of(Inputs.records(T)))
            .append(0, Samples.batch().base(-1).of(Inputs.records(T)))
            .append(0, Inputs.spoilt(batch, bytes -> bytes.put(70, (byte) 1)))
            .append(0, Inputs.spoilt(batch, bytes -> bytes.putInt(Inputs.CRC, 0)))
            .append(0, Inputs.spoilt(batch, bytes -> bytes.putInt(Inputs.LENGTH, 48)))
            .append(0, Inputs.spoilt(batch, bytes -> bytes.putInt(Inputs.LENGTH, 49)))
            .append(0, Inputs.sealed(batch, bytes -> bytes.putInt(Inputs.COUNT, 3)))
            .append(0, Inputs.sealed(batch, bytes -> bytes.putInt(Inputs.COUNT, 1)))
            .append(0, Inputs.sealed(batch, bytes -> bytes.putInt(Inputs.COUNT, 0)))
            .append(0, Inputs.sealed(batch, bytes -> bytes.putInt(Inputs.COUNT, -1)))
            .append(0, Inputs.sealed(batch, bytes -> bytes.putInt(Inputs.LAST_OFFSET_DELTA, 0)))
            .append(0, Inputs.sealed(batch, bytes -> bytes.putInt(Inputs.LAST_OFFSET_DELTA, -1)))
            .append(0, Inputs.sealed(batch, bytes -> bytes.putInt(Inputs.LAST_OFFSET_DELTA, 0).putInt(Inputs.COUNT, 1)))
            .append(0, Inputs.sealed(batch, bytes -> bytes.putInt(Inputs.LAST_OFFSET_DELTA, 2).putInt(Inputs.COUNT, 3)))
            .append(0, ControlCases.marker(0, ControlRecordType.COMMIT, 9, 0, 0))
            .append(0, Inputs.sealed(Samples.batch().producer(9, 0, 0).of(Inputs.records(T)), bytes -> bytes.putInt(53, -1)))
            .append(0, Inputs.sealed(batch, bytes -> bytes.putShort(Inputs.ATTRIBUTES, (short) 5)))
            .append(0, Inputs.sealed(batch, bytes -> bytes.putShort(Inputs.ATTRIBUTES, (short) 7)))
            .append(0, Inputs.sealed(batch, bytes -> bytes.putShort(Inputs.ATTRIBUTES, (short) 1)))
            .append(0, batch).finish();
    }

    private static void records(Golden golden) throws IOException {
        ByteBuffer batch = Inputs.at(T, T);
        Recorder log = new Recorder(golden, "refused-records", "Records that contradict themselves or their batch; "
            + "uncompressed offset deltas are not looked at", Logs.config());
        log.append(0, Inputs.sealed(batch, bytes -> bytes.put(OFFSET_DELTA, (byte) 10)))
            .append(0, Inputs.sealed(batch, bytes -> bytes.put(OFFSET_DELTA, (byte) 1)))
            .append(0, Inputs.sealed(batch, bytes -> bytes.put(RECORD_LENGTH, (byte) 18)))
            .append(0, Inputs.sealed(batch, bytes -> bytes.put(RECORD_LENGTH, (byte) 22)))
            .append(0, Inputs.sealed(batch, bytes -> bytes.put(RECORD_LENGTH, (byte) 1)))
            .append(0, Inputs.sealed(batch, bytes -> bytes.put(RECORD_LENGTH, (byte) 126)))
            .append(0, Inputs.sealed(batch, bytes -> bytes.put(KEY_LENGTH, (byte) 60)))
            .append(0, Inputs.sealed(batch, bytes -> bytes.put(KEY_LENGTH, (byte) 3)))
            .append(0, Inputs.sealed(batch, bytes -> bytes.put(HEADER_COUNT, (byte) 1)))
            .append(0, Inputs.sealed(batch, bytes -> bytes.put(HEADER_COUNT, (byte) 2)));
        for (CompressionType codec : new CompressionType[] {CompressionType.GZIP, CompressionType.LZ4})
            log.append(0, sparse(codec, 0, 2, 3)).append(0, sparse(codec, 1, 2, 3)).append(0, sparse(codec, 0, 1, 3));
        log.append(0, sparse(CompressionType.NONE, 0, 2, 3));
        ByteBuffer gzip = Samples.batch().codec(CompressionType.GZIP).of(Inputs.records(T, T));
        log.append(0, Inputs.sealed(gzip, bytes -> bytes.putInt(Inputs.COUNT, 3)))
            .append(0, Inputs.sealed(gzip, bytes -> bytes.putInt(Inputs.COUNT, 3).putInt(Inputs.LAST_OFFSET_DELTA, 2)))
            .append(0, Inputs.sealed(gzip, bytes -> bytes.putInt(Inputs.COUNT, 1).putInt(Inputs.LAST_OFFSET_DELTA, 0)))
            .append(0, Inputs.sealed(gzip, bytes -> bytes.put(Inputs.RECORDS, (byte) 0)))
            .append(0, Inputs.sealed(gzip, bytes -> bytes.put(Inputs.RECORDS + 14, (byte) ~bytes.get(Inputs.RECORDS + 14))));
        log.append(0, batch).commit().readAround(150).timesAround(T).finish();
    }

    /** Records at these offsets, with a header that claims 0, 1, 2. */
    private static ByteBuffer sparse(CompressionType codec, long... offsets) {
        MemoryRecordsBuilder builder = Samples.batch().codec(codec).builder();
        for (long offset : offsets)
            builder.appendWithOffset(offset, Samples.record(T, "k" + offset, "v"));
        return Inputs.sealed(builder.build().buffer(), batch -> batch.putInt(Inputs.LAST_OFFSET_DELTA, 2));
    }

    private static void sizes(Golden golden) throws IOException {
        new Recorder(golden, "refused-batch-size", "max.message.bytes counts the whole batch, and is still allowed",
            Logs.config("max.message.bytes", "200"))
            .append(0, Inputs.sized(200, T), Inputs.sized(201, T), Inputs.sized(199, T))
            .follow(0, Inputs.sized(Samples.batch().base(2), 201, T)).finish();
        new Recorder(golden, "refused-call-size", "A call may be as large as a segment, and no larger", Logs.config())
            .append(0, Inputs.sized(100, T), Inputs.sized(500, T), Inputs.sized(501, T), Inputs.sized(100, T))
            .follow(0, Inputs.sized(Samples.batch().base(3), 250, T), Inputs.sized(Samples.batch().base(4), 250, T))
            .follow(0, Inputs.sized(Samples.batch().base(5), 250, T), Inputs.sized(Samples.batch().base(6), 251, T)).finish();
    }

    private static void keys(Golden golden) throws IOException {
        for (String policy : new String[] {"compact", "compact,delete", "delete"})
            new Recorder(golden, "refused-keys-" + policy.replace(",", "-"), "Records without a key, and which policies refuse them",
                Logs.config("cleanup.policy", policy))
                .append(0, Samples.batch().of(Samples.record(T, null, "1")))
                .append(0, Samples.batch().of(Samples.record(T, "a", "1"), Samples.record(T, null, "2"),
                    Samples.record(T, "", "3"), Samples.record(T, null, null)))
                .append(0, Samples.batch().codec(CompressionType.ZSTD).of(Samples.record(T, "a", "1"), Samples.record(T, null, "2")))
                .append(0, Samples.batch().of(Samples.record(T, "", null))).finish();
    }

    private static void timestamps(Golden golden) throws IOException {
        Recorder log = new Recorder(golden, "refused-timestamps", "Times at their limits (1000 before, 2000 after now) and beyond",
            Logs.config("message.timestamp.before.max.ms", "1000", "message.timestamp.after.max.ms", "2000"));
        log.append(0, Inputs.at(T - 1000), Inputs.at(T - 1001), Inputs.at(T + 2000), Inputs.at(T + 2001), Inputs.at(-1),
            Inputs.at(T, T - 1001, T + 2001, T), Samples.batch().codec(CompressionType.GZIP).of(Inputs.records(T, T + 2001)),
            Inputs.sealed(Inputs.at(T), batch -> batch.putLong(Inputs.MAX_TIMESTAMP, T + 90_000)),
            Inputs.sealed(Inputs.at(T), batch -> batch.putLong(27, -5).putLong(Inputs.MAX_TIMESTAMP, -5)));
        log.at(T + 1).append(0, Inputs.at(T - 1000), Inputs.at(T + 2001)).commit().timesAround(T - 1000, T + 2001).finish();
        new Recorder(golden, "refused-timestamps-default", "Kafka's own limits: any age, one hour ahead", Logs.config())
            .append(0, Inputs.at(0), Inputs.at(T + 3_600_000), Inputs.at(T + 3_600_001)).commit().timesAround(0, T + 3_600_000)
            .finish();
        new Recorder(golden, "refused-mixed-errors", "A record with a bad time next to one without a key: the time names the error",
            Logs.config("cleanup.policy", "compact"))
            .append(0, Samples.batch().of(Samples.record(T, null, "1"), Samples.record(T + 3_600_001, "k", "2")))
            .append(0, Samples.batch().of(Samples.record(T + 3_600_001, null, "1"))).finish();
    }
}
