import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.record.TimestampType;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Random;

/** Records and batches that several families of cases share. */
final class Samples {
    /** Every codec that a v2 batch may have. */
    static final CompressionType[] CODECS = CompressionType.values();

    private Samples() {
    }

    /** A batch being described field by field, with defaults for what a case does not care about. */
    static final class Batch {
        byte magic = RecordBatch.MAGIC_VALUE_V2;
        CompressionType codec = CompressionType.NONE;
        TimestampType timestampType = TimestampType.CREATE_TIME;
        long logAppendTime = RecordBatch.NO_TIMESTAMP;
        long baseOffset;
        long producerId = RecordBatch.NO_PRODUCER_ID;
        short producerEpoch = RecordBatch.NO_PRODUCER_EPOCH;
        int baseSequence = RecordBatch.NO_SEQUENCE;
        boolean transactional;
        boolean control;
        int leaderEpoch;

        Batch magic(int value) {
            magic = (byte) value;
            if (value == 0)
                timestampType = TimestampType.NO_TIMESTAMP_TYPE;
            return this;
        }

        Batch codec(CompressionType value) {
            codec = value;
            return this;
        }

        Batch logAppendTime(long value) {
            timestampType = TimestampType.LOG_APPEND_TIME;
            logAppendTime = value;
            return this;
        }

        Batch base(long value) {
            baseOffset = value;
            return this;
        }

        Batch producer(long id, int epoch, int sequence) {
            producerId = id;
            producerEpoch = (short) epoch;
            baseSequence = sequence;
            return this;
        }

        Batch transactional() {
            transactional = true;
            return this;
        }

        Batch control() {
            control = true;
            return this;
        }

        Batch leaderEpoch(int value) {
            leaderEpoch = value;
            return this;
        }

        MemoryRecordsBuilder builder() {
            return new MemoryRecordsBuilder(ByteBuffer.allocate(1024), magic, Compression.of(codec).build(),
                timestampType, baseOffset, logAppendTime, producerId, producerEpoch, baseSequence,
                transactional, control, leaderEpoch, Integer.MAX_VALUE);
        }

        /** The records at consecutive offsets. */
        ByteBuffer of(SimpleRecord... records) {
            long[] offsets = new long[records.length];
            for (int i = 0; i < records.length; i++)
                offsets[i] = baseOffset + i;
            return at(offsets, records);
        }

        /** The records at chosen offsets, as compaction leaves them. */
        ByteBuffer at(long[] offsets, SimpleRecord... records) {
            MemoryRecordsBuilder builder = builder();
            for (int i = 0; i < records.length; i++)
                builder.appendWithOffset(offsets[i], records[i]);
            return builder.build().buffer();
        }
    }

    static Batch batch() {
        return new Batch();
    }

    static SimpleRecord record(long timestamp, String key, String value, Header... headers) {
        return new SimpleRecord(timestamp, utf8(key), utf8(value), headers);
    }

    /** A message of magic 0, which has no timestamp. */
    static SimpleRecord untimed(String key, String value) {
        return record(RecordBatch.NO_TIMESTAMP, key, value);
    }

    static Header header(String name, String value) {
        return new RecordHeader(name, utf8(value));
    }

    /** What a broker with message.timestamp.type=LogAppendTime does to the batch of a producer. */
    static ByteBuffer stampedAtAppend(ByteBuffer buffer, long now) {
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(buffer).batches())
            batch.setMaxTimestamp(TimestampType.LOG_APPEND_TIME, now);
        return buffer;
    }

    /** Words and numbers: compresses to about half. */
    static byte[] text(int size, long seed) {
        String[] words = {"tide", "log", "segment", "offset", "harbour", "buoy", "current", "ebb"};
        Random random = new Random(seed);
        StringBuilder text = new StringBuilder();
        while (text.length() < size)
            text.append(words[random.nextInt(words.length)]).append(' ').append(random.nextInt(1_000_000)).append(' ');
        return text.substring(0, size).getBytes(StandardCharsets.UTF_8);
    }

    /** Bytes that no codec makes smaller. */
    static byte[] noise(int size, long seed) {
        byte[] bytes = new byte[size];
        new Random(seed).nextBytes(bytes);
        return bytes;
    }

    static ByteBuffer concat(ByteBuffer... parts) {
        int size = 0;
        for (ByteBuffer part : parts)
            size += part.remaining();
        ByteBuffer whole = ByteBuffer.allocate(size);
        for (ByteBuffer part : parts)
            whole.put(part.duplicate());
        return whole.flip();
    }

    static byte[] bytes(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }

    private static byte[] utf8(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }
}
