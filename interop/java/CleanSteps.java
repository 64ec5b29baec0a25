import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogCleanerManager;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.PreCleanStats;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;

import java.io.File;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;

/**
 * Steps of {@link PlayStepsJob} about the log cleaner. It goes on from round to round, as a broker's does: the checkpoint is what
 * the last round answered, unless a step says otherwise ("checkpoint": null for none).
 *
 * <ul>
 * <li>"clean": one round of Kafka's {@link Cleaner}, whatever the dirty ratio, with "memory_bytes" and "load_factor" of the offset
 *     map, "io_buffer_bytes" and "max_io_buffer_bytes". Answers what was asked and done, and copies the files as they are then
 *     beside the case, into clean-0, clean-1... Where nothing is cleanable the cleaner is not asked, as in a broker.
 * <li>"choose": would {@link LogCleanerManager} clean the log now?
 * <li>"touch": gives the .log files of all segments but the active one modification times, the first "mtime_ms", each one "step_ms"
 *     later than the one before it.
 * </ul>
 */
final class CleanSteps {
    private final Path folder;
    private final Path scene;
    private Optional<Long> lastCheckpoint = Optional.empty();
    private int rounds;

    CleanSteps(Path folder, Path scene) {
        this.folder = folder;
        this.scene = scene;
    }

    Map<String, Object> clean(UnifiedLog log, FixedTime time, Map<String, Object> step) throws Exception {
        long now = time.milliseconds();
        Optional<Long> checkpoint = checkpoint(step);
        LogCleanerManager.OffsetsToClean offsets = LogCleanerManager.cleanableOffsets(log, checkpoint, now);
        LogToClean toClean = toClean(log, offsets);
        Map<String, Object> answer = facts(toClean, offsets);
        if (toClean.cleanableBytes() > 0) {
            SkimpyOffsetMap map = new SkimpyOffsetMap((int) Jobs.number(step, "memory_bytes"));
            Cleaner cleaner = new Cleaner(0, map, (int) Jobs.number(step, "io_buffer_bytes"), (int) Jobs.number(step, "max_io_buffer_bytes"),
                ((Number) step.get("load_factor")).doubleValue(),
                new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", Time.SYSTEM), time, partition -> { });
            Map.Entry<Long, CleanerStats> result = cleaner.doClean(toClean, now);
            lastCheckpoint = Optional.of(result.getKey());
            answer.put("next_dirty_offset", result.getKey());
            answer.putAll(stats(result.getValue()));
        }
        answer.put("mtimes_ms", modificationTimes(log));
        Logs.copy(folder, scene.resolve("clean-" + rounds++));
        return answer;
    }

    /** Kafka's choice among all logs of a directory, here of one. */
    Map<String, Object> choose(UnifiedLog log, FixedTime time, Map<String, Object> step) throws Exception {
        Optional<Long> checkpoint = checkpoint(step);
        LogCleanerManager.OffsetsToClean offsets = LogCleanerManager.cleanableOffsets(log, checkpoint, time.milliseconds());
        Map<String, Object> answer = facts(toClean(log, offsets), offsets);
        ConcurrentMap<TopicPartition, UnifiedLog> logs = new ConcurrentHashMap<>(Map.of(log.topicPartition(), log));
        File directory = folder.getParent().toFile();
        LogCleanerManager manager = new LogCleanerManager(List.of(directory), logs, new LogDirFailureChannel(1));
        try {
            manager.updateCheckpoints(directory, checkpoint.map(offset -> Map.entry(log.topicPartition(), offset)),
                checkpoint.isPresent() ? Optional.empty() : Optional.of(log.topicPartition()));
            answer.put("is_eligible", manager.grabFilthiestCompactedLog(time, new PreCleanStats()).isPresent());
        } finally {
            manager.removeMetrics();
        }
        return answer;
    }

    static Map<String, Object> touch(UnifiedLog log, Map<String, Object> step) throws IOException {
        long time = Jobs.number(step, "mtime_ms");
        for (LogSegment segment : log.logSegments()) {
            if (segment != log.activeSegment())
                Files.setLastModifiedTime(segment.log().file().toPath(), FileTime.fromMillis(time));
            time += Jobs.number(step, "step_ms");
        }
        return null;
    }

    private Optional<Long> checkpoint(Map<String, Object> step) {
        return step.containsKey("checkpoint") ? Optional.ofNullable((Number) step.get("checkpoint")).map(Number::longValue) : lastCheckpoint;
    }

    private static LogToClean toClean(UnifiedLog log, LogCleanerManager.OffsetsToClean offsets) {
        return new LogToClean(log, offsets.firstDirtyOffset(), offsets.firstUncleanableDirtyOffset(), false);
    }

    private static Map<String, Object> facts(LogToClean toClean, LogCleanerManager.OffsetsToClean offsets) {
        return Json.object(
            "first_dirty_offset", offsets.firstDirtyOffset(),
            "first_uncleanable_offset", offsets.firstUncleanableDirtyOffset(),
            "bound", toClean.firstUncleanableOffset(), // lowered to the beginning of a segment
            "clean_bytes", toClean.cleanBytes(),
            "cleanable_bytes", toClean.cleanableBytes(),
            "dirty_ratio", toClean.cleanableRatio());
    }

    private static Map<String, Object> stats(CleanerStats stats) throws ReflectiveOperationException {
        Field mapBytesRead = CleanerStats.class.getDeclaredField("mapBytesRead"); // which has no accessor
        mapBytesRead.setAccessible(true);
        return Json.object(
            "bytes_read", stats.bytesRead(),
            "bytes_written", stats.bytesWritten(),
            "messages_read", stats.messagesRead(),
            "messages_written", stats.messagesWritten(),
            "map_bytes_read", mapBytesRead.getLong(stats),
            "map_messages_read", stats.mapMessagesRead(),
            "invalid_messages_read", stats.invalidMessagesRead(),
            "buffer_utilization", stats.bufferUtilization());
    }

    /** Those that a step has set, all before the time of the first; others depend on when this runs. */
    private static List<Object> modificationTimes(UnifiedLog log) {
        List<Object> times = new ArrayList<>();
        for (LogSegment segment : log.logSegments())
            times.add(segment.lastModified() < Golden.T ? segment.lastModified() : null);
        return times;
    }
}
