import org.apache.kafka.common.message.DescribeProducersResponseData;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;

/**
 * The scene of an accident: files that a real log left behind, damaged by hand, and what Kafka makes of them.
 * One scene is one case of tests/golden/recovery.
 */
final class Scene {
    private final Golden golden;
    private final String name;
    private final String about;
    private final Map<String, String> config;
    private final Path temporary = Files.createTempDirectory("golden");
    private final Path before;
    private long now = Golden.T;

    /** The files of {@code found}, to be damaged. */
    Scene(Golden golden, String name, String about, Map<String, String> config, Path found) throws IOException {
        this.golden = golden;
        this.name = name;
        this.about = about;
        this.config = config;
        before = golden.folder("recovery/" + name + "/before");
        Logs.copy(found, before);
    }

    /** Settings for logs to be damaged; their indexes have few slots, since every case stores them three times. */
    static Map<String, String> config(String... namesAndValues) {
        Map<String, String> config = Logs.config(namesAndValues);
        config.put("segment.index.bytes", "96");
        return config;
    }

    /** The clock at the load. */
    Scene at(long value) {
        now = value;
        return this;
    }

    Path file(long base, String suffix) {
        return before.resolve(String.format("%020d", base) + suffix);
    }

    Scene delete(long base, String... suffixes) throws IOException {
        for (String suffix : suffixes)
            Files.delete(file(base, suffix));
        return this;
    }

    Scene delete(String fileName) throws IOException {
        Files.delete(before.resolve(fileName));
        return this;
    }

    Scene put(long base, String suffix, byte[] content) throws IOException {
        Files.write(file(base, suffix), content);
        return this;
    }

    Scene put(String fileName, String content) throws IOException {
        Files.writeString(before.resolve(fileName), content);
        return this;
    }

    Scene add(long base, String suffix, byte[] tail) throws IOException {
        Files.write(file(base, suffix), tail, StandardOpenOption.APPEND, StandardOpenOption.CREATE);
        return this;
    }

    /** Keeps only the first bytes of a file. */
    Scene cut(long base, String suffix, int size) throws IOException {
        return put(base, suffix, Arrays.copyOf(Files.readAllBytes(file(base, suffix)), size));
    }

    /** Changes bytes inside a file. */
    Scene change(long base, String suffix, Inputs.Change change) throws IOException {
        ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(file(base, suffix)));
        change.apply(bytes);
        return put(base, suffix, bytes.array());
    }

    /** Brings a file of another folder here, under a suffix of its own. */
    Scene bring(Path from, long base, String suffix, String suffixHere) throws IOException {
        return put(base, suffixHere, Files.readAllBytes(from.resolve(String.format("%020d", base) + suffix)));
    }

    Scene rename(long base, String from, String to) throws IOException {
        Files.move(file(base, from), file(base, to));
        return this;
    }

    /** Lets Kafka load a copy and writes the case. */
    void load(boolean lastShutdownClean, long recoveryPoint, long logStartOffset) throws IOException {
        Path target = golden.folder("recovery/" + name);
        Path folder = Files.createDirectory(temporary.resolve(Logs.FOLDER));
        Logs.copy(before, folder);
        Map<String, Object> document = Json.object("name", name, "about", about,
            "kafka_version", AppInfoParser.getVersion(), "config", config,
            "last_shutdown_clean", lastShutdownClean, "recovery_point", recoveryPoint,
            "log_start_offset", logStartOffset, "now_ms", now);
        try {
            UnifiedLog log = Logs.open(folder, config, new FixedTime(now), logStartOffset, recoveryPoint, lastShutdownClean);
            Logs.copy(folder, target.resolve("loaded"));
            describe(log, document);
            log.close();
            Logs.copy(folder, target.resolve("closed"));
        } catch (Throwable thrown) {
            // Some refusals are unchecked, and one is an Error of an assertion: all are what Kafka says here.
            document.put("error", Json.object("class", thrown.getClass().getSimpleName(), "message", Outcome.message(thrown)));
            Logs.copy(folder, target.resolve("loaded"));
        }
        golden.lines("recovery/" + name + "/case.json", document);
        Utils.delete(temporary.toFile());
    }

    private static void describe(UnifiedLog log, Map<String, Object> document) {
        Map<String, Object> state = Outcome.state(log);
        document.put("log_end_offset", state.get("log_end_offset"));
        document.put("log_start_offset_after", state.get("log_start_offset"));
        document.put("recovery_point_after", state.get("recovery_point"));
        document.put("high_watermark_after", state.get("high_watermark"));
        document.put("segment_bases", state.get("segment_bases"));
        document.put("sizes", state.get("sizes"));
        document.put("leader_epochs", Outcome.leaderEpochs(log));
        document.put("first_unstable_offset", log.firstUnstableOffset().orElse(null));
        document.put("producers", producers(log));
        document.put("batches", batches(log));
    }

    /** Every batch that a reader of the loaded log meets, segment by segment; bytes it cannot pass end the segment. */
    private static List<Object> batches(UnifiedLog log) {
        List<Object> segments = new ArrayList<>();
        for (LogSegment segment : log.logSegments()) {
            List<Object> batches = new ArrayList<>();
            try {
                for (RecordBatch batch : segment.log().batches())
                    batches.add(List.of(batch.baseOffset(), batch.lastOffset()));
            } catch (RuntimeException unreadable) {
                batches.add(unreadable.getClass().getSimpleName());
            }
            segments.add(batches);
        }
        return segments;
    }

    private static List<Object> producers(UnifiedLog log) {
        return log.activeProducers().stream()
            .sorted(Comparator.comparingLong(DescribeProducersResponseData.ProducerState::producerId))
            .map(producer -> (Object) Json.object(
                "producer_id", producer.producerId(),
                "producer_epoch", producer.producerEpoch(),
                "last_sequence", producer.lastSequence(),
                "last_timestamp_ms", producer.lastTimestamp(),
                "coordinator_epoch", producer.coordinatorEpoch(),
                "current_txn_first_offset", producer.currentTxnStartOffset()))
            .toList();
    }
}
