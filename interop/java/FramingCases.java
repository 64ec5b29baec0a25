import com.github.luben.zstd.Zstd;
import com.github.luben.zstd.ZstdOutputStream;
import net.jpountz.lz4.LZ4FrameOutputStream;
import net.jpountz.lz4.LZ4FrameOutputStream.BLOCKSIZE;
import net.jpountz.lz4.LZ4FrameOutputStream.FLG.Bits;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.DefaultRecordBatch;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.record.TimestampType;
import org.xerial.snappy.Snappy;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.zip.GZIPOutputStream;

/** Payloads that Kafka reads but frames otherwise itself: what other clients may have sent. */
final class FramingCases {
    private static final long T = Golden.T;

    private FramingCases() {
    }

    static void write(Golden golden) throws IOException {
        byte[] payload = payload();
        byte[] front = Arrays.copyOfRange(payload, 0, payload.length / 2);
        byte[] back = Arrays.copyOfRange(payload, payload.length / 2, payload.length);

        golden.batches("framing-gzip-two-members", "One payload in two gzip members",
            batch(CompressionType.GZIP, join(gzip(front), gzip(back))));
        golden.batches("framing-snappy-raw", "One raw snappy block, without the stream header",
            batch(CompressionType.SNAPPY, Snappy.compress(payload)));
        golden.batches("framing-lz4-checksums", "An lz4 frame with content size, block and content checksums",
            batch(CompressionType.LZ4, lz4(payload, BLOCKSIZE.SIZE_64KB,
                Bits.BLOCK_INDEPENDENCE, Bits.CONTENT_SIZE, Bits.CONTENT_CHECKSUM, Bits.BLOCK_CHECKSUM)));
        golden.batches("framing-lz4-4mb-blocks", "An lz4 frame of 4 MiB blocks",
            batch(CompressionType.LZ4, lz4(payload, BLOCKSIZE.SIZE_4MB, Bits.BLOCK_INDEPENDENCE)));
        golden.batches("framing-zstd-content-size", "A zstd frame that declares its content size",
            batch(CompressionType.ZSTD, Zstd.compress(payload)));
        golden.batches("framing-zstd-checksum", "A zstd frame with a checksum",
            batch(CompressionType.ZSTD, zstdWithChecksum(payload)));
        golden.batches("framing-zstd-two-frames", "One payload in two zstd frames",
            batch(CompressionType.ZSTD, join(Zstd.compress(front), Zstd.compress(back))));
    }

    private static SimpleRecord[] records() {
        return new SimpleRecord[] {
            Samples.record(T, "a", "1"), new SimpleRecord(T, null, Samples.text(500, 10)), Samples.record(T, "c", null),
        };
    }

    private static byte[] payload() {
        byte[] batch = Samples.bytes(MemoryRecords.withRecords(
            Compression.NONE, records()).buffer());
        return Arrays.copyOfRange(batch, DefaultRecordBatch.RECORD_BATCH_OVERHEAD, batch.length);
    }

    private static ByteBuffer batch(CompressionType codec, byte[] compressed) {
        int size = DefaultRecordBatch.RECORD_BATCH_OVERHEAD + compressed.length;
        ByteBuffer buffer = ByteBuffer.allocate(size);
        // The payload has to be there first: the header's checksum covers it.
        buffer.position(DefaultRecordBatch.RECORD_BATCH_OVERHEAD).put(compressed).rewind();
        DefaultRecordBatch.writeHeader(buffer, 0, records().length - 1, size, RecordBatch.CURRENT_MAGIC_VALUE, codec,
            TimestampType.CREATE_TIME, T, T, RecordBatch.NO_PRODUCER_ID,
            RecordBatch.NO_PRODUCER_EPOCH, RecordBatch.NO_SEQUENCE, false, false, false, 0, records().length);
        return buffer.rewind();
    }

    private static byte[] gzip(byte[] bytes) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try (OutputStream stream = new GZIPOutputStream(out)) {
            stream.write(bytes);
        }
        return out.toByteArray();
    }

    private static byte[] lz4(byte[] bytes, BLOCKSIZE blockSize, Bits... flags) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try (OutputStream stream = new LZ4FrameOutputStream(out, blockSize, bytes.length, flags)) {
            stream.write(bytes);
        }
        return out.toByteArray();
    }

    private static byte[] zstdWithChecksum(byte[] bytes) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try (OutputStream stream = new ZstdOutputStream(out).setChecksum(true)) {
            stream.write(bytes);
        }
        return out.toByteArray();
    }

    private static byte[] join(byte[] front, byte[] back) {
        return Samples.bytes(Samples.concat(ByteBuffer.wrap(front), ByteBuffer.wrap(back)));
    }
}
