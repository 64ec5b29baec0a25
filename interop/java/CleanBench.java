import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogCleanerManager;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.DigestException;
import java.security.NoSuchAlgorithmException;
import java.util.Map;
import java.util.Optional;

/**
 * Kafka's log cleaner, on one thread: {@code clean source=DIR folder=DIR memory=BYTES}, and its offset map:
 * {@code put|hit|miss keys=FILE others=FILE key-bytes=N memory=BYTES folder=DIR}.
 *
 * <p>A round cleans a copy of the source, made anew for each pass while no clock runs. The .log files are hard links, since nobody
 * writes to a segment that is closed. As in a broker one map is used again and again, and the I/O buffers have a broker's size. What
 * is timed is the round itself: it reads twice, writes, flushes and swaps. A check leaves what it made, closed.
 */
final class CleanBench {
    /** Half of log.cleaner.io.buffer.size, for reading and for writing. */
    private static final int IO_BUFFER_BYTES = 524288 / 2;
    private static final int MAX_MESSAGE_BYTES = 1048588;
    private static final double LOAD_FACTOR = 0.9;

    private CleanBench() {
    }

    static LogBench.Job clean(LogBench.Options options, KafkaScheduler scheduler) throws NoSuchAlgorithmException {
        Path source = Path.of(options.text("source"));
        LogConfig config = new LogConfig(options.logSettings());
        Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(options.number("memory")), IO_BUFFER_BYTES, MAX_MESSAGE_BYTES, LOAD_FACTOR,
            new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", Time.SYSTEM), Time.SYSTEM, partition -> { });
        return isCheck -> {
            link(source, options.folder());
            UnifiedLog log = LogBench.open(options.folder(), config, scheduler, true);
            log.updateHighWatermark(log.logEndOffset());
            long now = Time.SYSTEM.milliseconds();
            long start = System.nanoTime();
            LogCleanerManager.OffsetsToClean offsets = LogCleanerManager.cleanableOffsets(log, Optional.empty(), now);
            Map.Entry<Long, CleanerStats> result = cleaner.doClean(
                new LogToClean(log, offsets.firstDirtyOffset(), offsets.firstUncleanableDirtyOffset(), false), now);
            long nanos = System.nanoTime() - start;
            CleanerStats stats = result.getValue();
            Map<String, Object> answer = Json.object("count", stats.bytesRead(), "seconds", nanos / 1e9,
                "next_dirty_offset", result.getKey(), "messages_read", stats.messagesRead(), "messages_written", stats.messagesWritten());
            if (isCheck)
                log.close();
            else
                log.delete();
            return answer;
        };
    }

    private static void link(Path source, Path target) throws IOException {
        LogBench.makeEmpty(target);
        for (Path file : Logs.files(source)) {
            Path copy = target.resolve(file.getFileName());
            if (file.toString().endsWith(".log") && Files.size(file) > 1 << 20)
                Files.createLink(copy, file);
            else
                Files.copy(file, copy);
        }
    }

    static LogBench.Job offsetMap(LogBench.Options options, String job) throws IOException, DigestException, NoSuchAlgorithmException {
        int keyBytes = options.number("key-bytes");
        ByteBuffer keys = LogBench.load(Path.of(options.text("keys")));
        ByteBuffer asked = job.equals("miss") ? LogBench.load(Path.of(options.text("others"))) : keys;
        SkimpyOffsetMap map = new SkimpyOffsetMap(options.number("memory"));
        putAll(map, keys, keyBytes);
        return isCheck -> {
            if (job.equals("put"))
                map.clear();
            long start = System.nanoTime();
            long sum = job.equals("put") ? putAll(map, keys, keyBytes) : getAll(map, asked, keyBytes);
            long nanos = System.nanoTime() - start;
            return Json.object("count", asked.capacity() / keyBytes, "seconds", nanos / 1e9, "sum", sum, "entries", map.size());
        };
    }

    private static long putAll(SkimpyOffsetMap map, ByteBuffer keys, int keyBytes) throws DigestException {
        ByteBuffer key = keys.duplicate();
        int offset = 0;
        for (int at = 0; at < keys.capacity(); at += keyBytes) {
            key.limit(at + keyBytes).position(at);
            map.put(key, offset++);
        }
        return offset;
    }

    private static long getAll(SkimpyOffsetMap map, ByteBuffer keys, int keyBytes) throws DigestException {
        ByteBuffer key = keys.duplicate();
        long sum = 0;
        for (int at = 0; at < keys.capacity(); at += keyBytes) {
            key.limit(at + keyBytes).position(at);
            sum += map.get(key);
        }
        return sum;
    }
}
