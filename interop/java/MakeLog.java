import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.TimestampType;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.Random;

/**
 * Writes an input for {@link Bench}: {@code MakeLog FILE.log CODEC RECORDS}.
 *
 * <p>Events as they often are: a user for a key (16 bytes), JSON for a value (100 bytes, padded with spaces), batches of 16 KiB
 * before compression. Always the same bytes for the same arguments.
 */
public final class MakeLog {
    private static final int BATCH_BYTES = 16 * 1024;
    private static final int KEY_BYTES = 16;
    private static final int VALUE_BYTES = 100;
    private static final int USERS = 1_000_000;
    private static final String[] EVENTS = {"page_view", "search", "click", "purchase", "logout"};
    private static final String[] PLACES = {"tide", "log", "segment", "offset", "harbour", "buoy", "current", "ebb"};

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
        Random random = new Random(2);
        try (FileChannel file = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.WRITE,
                StandardOpenOption.TRUNCATE_EXISTING)) {
            int next = 0;
            while (next < records) {
                MemoryRecordsBuilder builder = MemoryRecords.builder(
                    ByteBuffer.allocate(BATCH_BYTES), compression, TimestampType.CREATE_TIME, next);
                int full = BATCH_BYTES - KEY_BYTES - VALUE_BYTES;
                while (next < records && builder.uncompressedBytesWritten() < full) {
                    int user = random.nextInt(USERS);
                    builder.append(Golden.T + next, ascii(String.format("user-%011d", user), KEY_BYTES),
                        ascii(event(random, user, next), VALUE_BYTES), Record.EMPTY_HEADERS);
                    next++;
                }
                builder.build().writeFullyTo(file);
            }
        }
    }

    private static String event(Random random, int user, int next) {
        return "{\"user\":" + user + ",\"event\":\"" + EVENTS[random.nextInt(EVENTS.length)] + "\",\"page\":\"/"
            + PLACES[random.nextInt(PLACES.length)] + "/" + random.nextInt(10_000) + "\",\"ms\":" + (Golden.T + next)
            + ",\"session\":\"" + Integer.toHexString(random.nextInt()) + "\"}";
    }

    /** Cut or padded with spaces to exactly this size. */
    private static byte[] ascii(String text, int size) {
        byte[] bytes = Arrays.copyOf(text.getBytes(StandardCharsets.US_ASCII), size);
        for (int i = text.length(); i < size; i++)
            bytes[i] = ' ';
        return bytes;
    }
}
