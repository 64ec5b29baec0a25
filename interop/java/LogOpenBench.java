import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ScheduledFuture;

/**
 * Opens a log: {@code open folder=DIR clean=true|false}. Not clean: every segment is recovered, from offset 0 on;
 * {@code without-indexes=true} deletes them first. The clock runs while the log is opened, not while it is closed.
 *
 * <p>{@code make input=FILE.log folder=DIR batches=N} writes such a log, batch by batch, and closes it in order.
 */
final class LogOpenBench implements LogBench.Job {
    private final Path folder;
    private final LogConfig config;
    private final KafkaScheduler scheduler;
    private final boolean isClean;
    private final boolean isWithoutIndexes;

    LogOpenBench(LogBench.Options options, KafkaScheduler scheduler) {
        folder = options.folder();
        config = new LogConfig(options.logSettings());
        this.scheduler = scheduler;
        isClean = options.isSet("clean");
        isWithoutIndexes = options.isSet("without-indexes");
    }

    static LogBench.Job make(LogBench.Options options) throws IOException {
        ByteBuffer input = LogBench.load(Path.of(options.text("input")));
        List<ByteBuffer> batches = LogAppendBench.slices(input, 1, options.number("batches"));
        return isCheck -> {
            LogBench.makeEmpty(options.folder());
            UnifiedLog log = LogBench.open(options.folder(), new LogConfig(options.logSettings()), new NoScheduler(), true);
            for (ByteBuffer batch : batches)
                log.appendAsFollower(MemoryRecords.readableRecords(batch), 0);
            Map<String, Object> answer = describe(log, 0);
            log.takeProducerSnapshot();
            LogBench.closeUnsynced(log);
            return answer;
        };
    }

    /** Forgets every task, such as the flush of a rolled segment. */
    private static final class NoScheduler implements Scheduler {
        private final Scheduler handles = new FixedTime.InlineScheduler();

        @Override
        public void startup() {
        }

        @Override
        public void shutdown() {
        }

        @Override
        public void resizeThreadPool(int size) {
        }

        @Override
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            return handles.schedule(name, () -> { }, delayMs, periodMs);
        }
    }

    @Override
    public Map<String, Object> run(boolean isCheck) throws IOException {
        prepare();
        long start = System.nanoTime();
        UnifiedLog log = LogBench.open(folder, config, scheduler, isClean);
        Map<String, Object> answer = describe(log, System.nanoTime() - start);
        LogBench.closeUnsynced(log);
        return answer;
    }

    private void prepare() throws IOException {
        if (isClean)
            return;
        List<Path> files = Logs.files(folder);
        String lastSegment = "";
        for (Path file : files)
            if (file.toString().endsWith(".log"))
                lastSegment = file.getFileName().toString();
        for (Path file : files) {
            String name = file.getFileName().toString();
            // A snapshot at the end of the log is what closing it wrote: a crash has none.
            boolean isOfTheEnd = name.endsWith(".snapshot") && name.substring(0, 20).compareTo(lastSegment.substring(0, 20)) > 0;
            boolean isIndex = name.endsWith(".index") || name.endsWith(".timeindex");
            if (isOfTheEnd || isIndex && isWithoutIndexes)
                Files.delete(file);
        }
    }

    private static Map<String, Object> describe(UnifiedLog log, long nanos) {
        return Json.object("count", log.size(), "seconds", nanos / 1e9, "end_offset", log.logEndOffset(),
            "size_bytes", log.size(), "segments", log.numberOfSegments());
    }
}
