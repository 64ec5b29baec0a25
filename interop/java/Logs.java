import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogCleanerManager;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Stream;

/** Opens, cleans and copies Kafka's own partition logs the way every golden case does: fixed clock, no threads. */
final class Logs {
    /** The partition's folder inside a temporary one: Kafka reads topic and partition from the name. */
    static final String FOLDER = "tide-0";

    private Logs() {
    }

    static UnifiedLog open(Path folder, Map<String, String> config, FixedTime time,
                           long logStartOffset, long recoveryPoint, boolean lastShutdownClean) throws IOException {
        return UnifiedLog.create(folder.toFile(), new LogConfig(config), logStartOffset, recoveryPoint,
            new FixedTime.InlineScheduler(), new BrokerTopicStats(), time, 900_000,
            new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1),
            lastShutdownClean, Optional.empty());
    }

    /** What one round of the cleaner was asked and answered. */
    record Round(LogCleanerManager.OffsetsToClean offsets, long nextDirtyOffset, CleanerStats stats) {
    }

    /** One round of the log cleaner over everything before the active segment. */
    static Round clean(UnifiedLog log, FixedTime time, Optional<Long> checkpoint, long now) throws Exception {
        time.set(now);
        log.updateHighWatermark(log.logEndOffset());
        LogCleanerManager.OffsetsToClean offsets = LogCleanerManager.cleanableOffsets(log, checkpoint, now);
        Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(24 * 1000), 65536, 1 << 20, 0.9,
            new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", Time.SYSTEM), time, partition -> { });
        Map.Entry<Long, CleanerStats> result = cleaner.doClean(
            new LogToClean(log, offsets.firstDirtyOffset(), offsets.firstUncleanableDirtyOffset(), false), now);
        return new Round(offsets, result.getKey(), result.getValue());
    }

    /** Topic settings in one order, with small segments and dense indexes unless a case says otherwise. */
    static Map<String, String> config(String... namesAndValues) {
        Map<String, String> config = new TreeMap<>(Map.of(
            "internal.segment.bytes", "500", "index.interval.bytes", "0", "segment.index.bytes", "240"));
        for (int i = 0; i < namesAndValues.length; i += 2)
            config.put(namesAndValues[i], namesAndValues[i + 1]);
        return config;
    }

    /** Every file as it is now, those of the active segment included. */
    static void copy(Path from, Path to) throws IOException {
        Files.createDirectories(to);
        for (Path file : files(from))
            Files.copy(file, to.resolve(file.getFileName()), StandardCopyOption.REPLACE_EXISTING);
    }

    static List<Path> files(Path folder) throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            return files.sorted().toList();
        }
    }
}
