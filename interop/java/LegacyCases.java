import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.SimpleRecord;

import java.io.IOException;
import java.nio.ByteBuffer;

/** Messages of the formats 0 and 1, plain and wrapped. */
final class LegacyCases {
    private static final long T = Golden.T;
    static final CompressionType[] CODECS = {CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4};

    private LegacyCases() {
    }

    static void write(Golden golden) throws IOException {
        golden.batches("v0-plain", "Messages without timestamps, null keys and null values among them",
            Samples.batch().magic(0).base(5_000_000_000L).of(untimed()));
        golden.batches("v1-plain", "Messages with timestamps, null keys and null values among them",
            Samples.batch().magic(1).base(5_000_000_000L).of(timed()));
        golden.batches("v1-log-append-time", "Messages stamped by the broker",
            Samples.batch().magic(1).base(10).logAppendTime(T + 1).of(timed()));
        for (CompressionType codec : CODECS)
            wrapped(golden, codec);
        offsets(golden);
    }

    private static void wrapped(Golden golden, CompressionType codec) throws IOException {
        golden.batches("v0-" + codec.name, "A wrapper whose inner offsets are absolute"
                + (codec == CompressionType.LZ4 ? "; the frame's header checksum is the wrong one of format 0" : ""),
            Samples.batch().magic(0).codec(codec).base(100).of(untimed()));
        golden.batches("v1-" + codec.name, "A wrapper whose inner offsets are relative",
            Samples.batch().magic(1).codec(codec).base(100).of(timed()));
        golden.batches("v1-log-append-time-" + codec.name, "A wrapper stamped by the broker: its time counts for all inside",
            Samples.batch().magic(1).codec(codec).base(100).logAppendTime(T + 1).of(timed()));
        golden.batches("v1-large-" + codec.name, "A wrapper of values that span several blocks of the codec",
            Samples.batch().magic(1).codec(codec).base(100).of(
                new SimpleRecord(T, null, Samples.text(70_000, 9)), Samples.record(T + 1, "last", "small")));
    }

    private static void offsets(Golden golden) throws IOException {
        golden.batches("v1-wrapper-one-message", "Wrappers around one message, at offset 0 and at offset 1",
            Samples.batch().magic(1).codec(CompressionType.GZIP).base(0).of(Samples.record(T, "a", "1")),
            Samples.batch().magic(1).codec(CompressionType.GZIP).base(1).of(Samples.record(T, "b", "2")));
        golden.batches("v1-wrapper-offset-zero", "A wrapper as a producer sends it, offset 0 around three messages: "
                + "the inner offsets are taken as they are",
            withWrapperOffset(0));
        golden.batches("v1-wrapper-gaps", "Inner offsets with gaps, the first of them 0",
            Samples.batch().magic(1).codec(CompressionType.GZIP).base(100)
                .at(new long[] {100, 103, 109}, FieldCases.three()));
        golden.batches("v1-wrapper-gap-in-front", "Inner offsets with gaps, the first of them not 0",
            Samples.batch().magic(1).codec(CompressionType.GZIP).base(100)
                .at(new long[] {102, 103, 109}, FieldCases.three()));
        golden.batches("v0-wrapper-gaps", "Absolute inner offsets with gaps",
            Samples.batch().magic(0).codec(CompressionType.GZIP).base(100)
                .at(new long[] {102, 103, 109}, Samples.untimed("a", "1"), Samples.untimed("b", "2"), Samples.untimed("c", "3")));
    }

    private static ByteBuffer withWrapperOffset(long offset) {
        ByteBuffer buffer = Samples.batch().magic(1).codec(CompressionType.SNAPPY).base(0).of(FieldCases.three());
        for (MutableRecordBatch wrapper : MemoryRecords.readableRecords(buffer).batches())
            wrapper.setLastOffset(offset);
        return buffer;
    }

    static SimpleRecord[] untimed() {
        return new SimpleRecord[] {
            Samples.untimed("key", "value"), Samples.untimed(null, "null key"), Samples.untimed("null value", null),
            Samples.untimed("", ""), Samples.untimed(null, null),
        };
    }

    static SimpleRecord[] timed() {
        return new SimpleRecord[] {
            Samples.record(T, "key", "value"), Samples.record(T - 5, null, "null key"),
            Samples.record(T + 9, "null value", null), Samples.record(T + 3, "", ""), Samples.record(T, null, null),
        };
    }
}
