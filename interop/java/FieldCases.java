import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.DefaultRecordBatch;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.record.TimestampType;

import java.io.IOException;
import java.nio.ByteBuffer;

/** v2 header fields: producers, sequences, epochs, gaps, extremes, and batches without records. */
final class FieldCases {
    private static final long T = Golden.T;

    private FieldCases() {
    }

    static void write(Golden golden) throws IOException {
        producers(golden);
        offsetsAndTimes(golden);
        horizons(golden);
        golden.batches("v2-header-name-not-utf8", "A header name that is no UTF-8: Kafka reads it with a replacement character",
            headerNameNotUtf8());
        empty(golden);
        mixed(golden);
    }

    private static void producers(Golden golden) throws IOException {
        golden.batches("v2-idempotent", "Two batches of one idempotent producer",
            Samples.batch().base(10).producer(9, 1, 0).of(three()),
            Samples.batch().base(13).producer(9, 1, 3).codec(CompressionType.LZ4).of(three()));
        golden.batches("v2-sequence-wrap", "The sequence passes 2147483647 inside the batch and goes on at 0",
            Samples.batch().base(10).producer(9, 1, Integer.MAX_VALUE - 1).of(four()));
        golden.batches("v2-transactional", "A transaction's data, plain and compressed",
            Samples.batch().base(20).producer(4000, 7, 5).transactional().of(three()),
            Samples.batch().base(23).producer(4000, 7, 8).transactional().codec(CompressionType.ZSTD).of(three()));
    }

    private static void offsetsAndTimes(Golden golden) throws IOException {
        golden.batches("v2-no-timestamp", "Records without a timestamp (-1)",
            Samples.batch().base(5).of(Samples.untimed("a", "1"), Samples.untimed("b", null)));
        golden.batches("v2-some-timestamps-missing", "A first record without a timestamp, then one with",
            Samples.batch().base(5).of(Samples.untimed("a", "1"), Samples.record(T, "b", "2")));
        golden.batches("v2-leader-epochs", "Leader epochs -1, 0 and 2147483647",
            Samples.batch().base(0).leaderEpoch(-1).of(Samples.record(T, "a", "1")),
            Samples.batch().base(1).leaderEpoch(0).of(Samples.record(T, "b", "2")),
            Samples.batch().base(2).leaderEpoch(Integer.MAX_VALUE).of(Samples.record(T, "c", "3")));
        golden.batches("v2-gaps", "Offsets missing at the start, in the middle and at the end of a batch",
            withGaps(CompressionType.NONE), withGaps(CompressionType.GZIP));
        golden.batches("v2-largest-offset-delta", "First and last record 2147483647 offsets apart",
            Samples.batch().base(7).at(new long[] {7, 7L + Integer.MAX_VALUE},
                Samples.record(T, "first", "1"), Samples.record(T, "last", "2")));
        golden.batches("v2-largest-fields", "Every header field at or next to its largest value",
            Samples.batch().base(Long.MAX_VALUE - 2).producer(Long.MAX_VALUE, Short.MAX_VALUE, Integer.MAX_VALUE)
                .transactional().leaderEpoch(Integer.MAX_VALUE)
                .of(Samples.record(Long.MAX_VALUE, "a", "1"), Samples.record(0, "b", "2")));
    }

    private static ByteBuffer withGaps(CompressionType codec) {
        long base = codec == CompressionType.NONE ? 100 : 200;
        var builder = Samples.batch().base(base).codec(codec).producer(9, 0, 50).builder();
        builder.appendWithOffset(base + 3, Samples.record(T, "a", "1"));
        builder.appendWithOffset(base + 70, Samples.record(T + 1, "b", "2"));
        builder.overrideLastOffset(base + 99);
        return builder.build().buffer();
    }

    private static void horizons(Golden golden) throws IOException {
        SimpleRecord[] records = {
            Samples.record(T, "a", "1"), Samples.record(T + 900, "b", null), Samples.record(T - 300, "c", "3"),
        };
        ByteBuffer plain = Samples.batch().base(100).of(records);
        ByteBuffer compressed = Samples.batch().base(200).codec(CompressionType.ZSTD).of(records);
        ByteBuffer appended = Samples.stampedAtAppend(Samples.batch().base(300).of(records), T + 1);
        golden.batches("v2-delete-horizon", "Batches that the cleaner gave a delete horizon: plain, compressed, with append time",
            Retain.keep(plain, 100, 101, 102).output(),
            Retain.keep(compressed, 200, 201, 202).output(),
            Retain.keep(appended, 300, 301, 302).output());
    }

    /** Kafka's own builder cannot write such a name, other clients can. */
    static ByteBuffer headerNameNotUtf8() {
        ByteBuffer buffer = Samples.batch().base(100).of(
            Samples.record(T, "a", "1", Samples.header("~", "named by one byte")), Samples.record(T, "b", "2"));
        for (int i = DefaultRecordBatch.RECORD_BATCH_OVERHEAD; i < buffer.limit(); i++)
            if (buffer.get(i) == '~')
                buffer.put(i, (byte) 0xff);
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(buffer).batches()) {
            // The checksum is made anew whenever the max timestamp changes: once away, once back.
            batch.setMaxTimestamp(TimestampType.CREATE_TIME, T + 1);
            batch.setMaxTimestamp(TimestampType.CREATE_TIME, T);
        }
        return buffer;
    }

    private static void empty(Golden golden) throws IOException {
        golden.batches("v2-empty", "What the cleaner keeps of a batch without records: plain, of a producer, "
                + "transactional, of a marker, and with append time",
            header(10, 14, RecordBatch.NO_PRODUCER_ID, -1, RecordBatch.NO_SEQUENCE, TimestampType.CREATE_TIME, false, false),
            header(15, 19, 9, 1, 20, TimestampType.CREATE_TIME, false, false),
            header(20, 20, 9, 1, 25, TimestampType.CREATE_TIME, true, false),
            header(21, 21, 9, 1, RecordBatch.NO_SEQUENCE, TimestampType.CREATE_TIME, true, true),
            header(22, 30, 9, 1, 26, TimestampType.LOG_APPEND_TIME, false, false));
    }

    private static ByteBuffer header(long first, long last, long producerId, int epoch, int sequence,
                                     TimestampType type, boolean transactional, boolean control) {
        ByteBuffer buffer = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        DefaultRecordBatch.writeEmptyHeader(buffer, RecordBatch.CURRENT_MAGIC_VALUE, producerId, (short) epoch,
            sequence, first, last, 2, type, T, transactional, control);
        return buffer.flip();
    }

    private static void mixed(Golden golden) throws IOException {
        ByteBuffer[] batches = new ByteBuffer[20];
        for (int i = 0; i < batches.length; i++)
            batches[i] = Samples.batch().base(3L * i).leaderEpoch(i / 8)
                .codec(Samples.CODECS[i % Samples.CODECS.length]).of(three());
        golden.batches("v2-many-batches", "Twenty batches, the codecs taking turns", batches);

        golden.batches("mixed-magic", "A log that lived through both upgrades: v0, v1, then v2, with an empty batch between",
            Samples.batch().magic(0).base(0).of(Samples.untimed("a", "1"), Samples.untimed("b", "2")),
            Samples.batch().magic(0).base(2).codec(CompressionType.GZIP).of(Samples.untimed("c", "3"), Samples.untimed("d", "4")),
            Samples.batch().magic(1).base(4).of(three()),
            Samples.batch().magic(1).base(7).codec(CompressionType.LZ4).of(three()),
            Samples.batch().base(10).of(three()),
            header(13, 19, 9, 1, 0, TimestampType.CREATE_TIME, false, false),
            Samples.batch().base(20).codec(CompressionType.ZSTD).of(three()));
    }

    static SimpleRecord[] three() {
        return new SimpleRecord[] {
            Samples.record(T, "a", "1"), Samples.record(T + 10, "b", "2"), Samples.record(T + 5, "c", "3"),
        };
    }

    private static SimpleRecord[] four() {
        return new SimpleRecord[] {
            Samples.record(T, "a", "1"), Samples.record(T, "b", "2"), Samples.record(T, "c", "3"), Samples.record(T, "d", "4"),
        };
    }
}
