import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.TimestampType;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Random;

/**
 * Writes an input for {@link Bench}: {@code MakeLog FILE.log CODEC RECORDS}.
 *
 * <p>Keys of 16 bytes, values of 100 bytes of compressible text, batches of 16 KiB (before compression), always the same.
 */
public final class MakeLog {
    private static final int BATCH_BYTES = 16 * 1024;
    private static final int KEY_BYTES = 16;
    private static final int VALUE_BYTES = 100;

    private MakeLog() {
    }

    public static void main(String[] args) throws IOException {
        if (args.length != 3) {
            System.err.println("usage: MakeLog FILE.log none|gzip|snappy|lz4|zstd RECORDS");
            System.exit(2);
        }
        write(Path.of(args[0]), Compression.of(args[1]).build(), Integer.parseInt(args[2]));
    }

    private static void write(Path path, Compression compression, int records) throws IOException {
        byte[] text = Samples.text(1 << 20, 1);
        Random random = new Random(2);
        byte[] key = new byte[KEY_BYTES];
        byte[] value = new byte[VALUE_BYTES];
        try (FileChannel file = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.WRITE,
                StandardOpenOption.TRUNCATE_EXISTING)) {
            int next = 0;
            while (next < records) {
                MemoryRecordsBuilder builder = MemoryRecords.builder(
                    ByteBuffer.allocate(BATCH_BYTES), compression, TimestampType.CREATE_TIME, next);
                int full = BATCH_BYTES - KEY_BYTES - VALUE_BYTES;
                while (next < records && builder.uncompressedBytesWritten() < full) {
                    random.nextBytes(key);
                    System.arraycopy(text, random.nextInt(text.length - VALUE_BYTES), value, 0, VALUE_BYTES);
                    builder.append(Golden.T + next, key, value, Record.EMPTY_HEADERS);
                    next++;
                }
                builder.build().writeFullyTo(file);
            }
        }
    }
}
