import org.apache.kafka.common.record.DefaultRecordBatch;
import org.apache.kafka.common.record.SimpleRecord;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.zip.CRC32C;

/** Batches as producers send them, of exact sizes or with single fields spoilt. */
final class Inputs {
    // Where the fields of a v2 header are.
    static final int LENGTH = 8;
    static final int MAGIC = 16;
    static final int CRC = 17;
    static final int ATTRIBUTES = 21;
    static final int LAST_OFFSET_DELTA = 23;
    static final int MAX_TIMESTAMP = 35;
    static final int COUNT = 57;
    static final int RECORDS = DefaultRecordBatch.RECORD_BATCH_OVERHEAD;

    private Inputs() {
    }

    /** A batch of one small record. */
    static ByteBuffer one(long timestamp) {
        return Samples.batch().of(Samples.record(timestamp, "key", "value"));
    }

    /** A batch with one record per timestamp. */
    static ByteBuffer at(long... timestamps) {
        return Samples.batch().of(records(timestamps));
    }

    static SimpleRecord[] records(long... timestamps) {
        SimpleRecord[] records = new SimpleRecord[timestamps.length];
        for (int i = 0; i < records.length; i++)
            records[i] = Samples.record(timestamps[i], "k" + i, "v" + i);
        return records;
    }

    /** A batch of one record that takes exactly so many bytes. */
    static ByteBuffer sized(int bytes, long timestamp) {
        return sized(Samples.batch(), bytes, timestamp);
    }

    static ByteBuffer sized(Samples.Batch batch, int bytes, long timestamp) {
        for (int length = bytes - RECORDS; length >= 0; length--) {
            byte[] value = "x".repeat(length).getBytes(StandardCharsets.UTF_8);
            ByteBuffer whole = batch.of(new SimpleRecord(timestamp, "k".getBytes(StandardCharsets.UTF_8), value));
            if (whole.remaining() == bytes)
                return whole;
        }
        throw new IllegalArgumentException("no batch of " + bytes + " bytes");
    }

    /** A change of bytes inside a batch. */
    interface Change {
        void apply(ByteBuffer batch);
    }

    /** The batch with some bytes changed and the checksum right again. */
    static ByteBuffer sealed(ByteBuffer batch, Change change) {
        ByteBuffer changed = spoilt(batch, change);
        CRC32C crc = new CRC32C();
        crc.update(changed.duplicate().position(ATTRIBUTES));
        changed.putInt(CRC, (int) crc.getValue());
        return changed;
    }

    /** The batch with some bytes changed and the checksum as it was. */
    static ByteBuffer spoilt(ByteBuffer batch, Change change) {
        ByteBuffer copy = ByteBuffer.wrap(Samples.bytes(batch));
        change.apply(copy);
        return copy;
    }

    /** The first bytes of a batch. */
    static ByteBuffer cut(ByteBuffer batch, int bytes) {
        return ByteBuffer.wrap(Samples.bytes(batch.duplicate().limit(bytes)));
    }
}
