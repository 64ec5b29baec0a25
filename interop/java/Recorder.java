import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.RecordVersion;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;

/**
 * Drives one partition of Kafka and writes down every call with its outcome: one case of tests/golden/partitions.
 *
 * <p>Calls return this, so that a case reads as its list of steps. {@link #finish} copies the files before and after
 * closing the log, and writes case.json.
 */
final class Recorder {
    private final Golden golden;
    private final String name;
    private final String about;
    private final Map<String, String> config;
    private final FixedTime time = new FixedTime(Golden.T);
    private final Path temporary = Files.createTempDirectory("golden");
    private final Path folder = Files.createDirectory(temporary.resolve(Logs.FOLDER));
    private final List<Map<String, Object>> steps = new ArrayList<>();
    private UnifiedLog log;

    /** Starts from an empty folder. */
    Recorder(Golden golden, String name, String about, Map<String, String> config) throws IOException {
        this(golden, name, about, config, null);
    }

    /** Starts from the files in {@code initial}, which become part of the case; null for an empty folder. */
    Recorder(Golden golden, String name, String about, Map<String, String> config, Path initial) throws IOException {
        this.golden = golden;
        this.name = name;
        this.about = about;
        this.config = config;
        if (initial != null) {
            Logs.copy(initial, folder);
            Logs.copy(initial, golden.folder("partitions/" + name + "/initial"));
        }
        log = Logs.open(folder, config, time, 0, 0, true);
    }

    UnifiedLog log() {
        return log;
    }

    /** Sets the clock for the calls that follow. */
    Recorder at(long now) {
        time.set(now);
        return this;
    }

    /** One call of the leader's append per buffer. */
    Recorder append(int leaderEpoch, ByteBuffer... calls) {
        for (ByteBuffer call : calls)
            append(leaderEpoch, AppendOrigin.CLIENT, call);
        return this;
    }

    Recorder append(int leaderEpoch, AppendOrigin origin, ByteBuffer batches) {
        short transactionVersion = 0;
        return change(Json.object("op", "append", "leader_epoch", leaderEpoch,
                "origin", origin.name().toLowerCase(Locale.ROOT), "batches", base64(batches)),
            () -> Outcome.appended(log.appendAsLeader(MemoryRecords.readableRecords(batches), leaderEpoch, origin,
                RequestLocal.noCaching(), VerificationGuard.SENTINEL, transactionVersion)));
    }

    /** One call of the follower's append, with all batches in it. */
    Recorder follow(int leaderEpoch, ByteBuffer... batches) {
        ByteBuffer whole = Samples.concat(batches);
        return change(Json.object("op", "append_as_follower", "leader_epoch", leaderEpoch, "batches", base64(whole)),
            () -> Outcome.appended(log.appendAsFollower(MemoryRecords.readableRecords(whole), leaderEpoch)));
    }

    Recorder appendLegacy(RecordVersion version, ByteBuffer records) {
        return change(Json.object("op", "append_legacy", "magic", (int) version.value, "batches", base64(records)),
            () -> Outcome.appended(log.appendAsLeaderWithRecordVersion(MemoryRecords.readableRecords(records), 0, version)));
    }

    Recorder roll() {
        return change(Json.object("op", "roll"), () -> Json.object("base_offset", log.roll().baseOffset()));
    }

    Recorder flush() {
        return change(Json.object("op", "flush"), () -> {
            log.flush(false);
            return null;
        });
    }

    Recorder truncateTo(long offset) {
        return change(Json.object("op", "truncate_to", "offset", offset),
            () -> Json.object("truncated", log.truncateTo(offset)));
    }

    Recorder truncateFullyAndStartAt(long offset) {
        return change(Json.object("op", "truncate_fully_and_start_at", "offset", offset), () -> {
            log.truncateFullyAndStartAt(offset, Optional.empty());
            return null;
        });
    }

    Recorder highWatermark(long offset) {
        return change(Json.object("op", "update_high_watermark", "offset", offset),
            () -> Json.object("high_watermark", log.updateHighWatermark(offset)));
    }

    /** Everything is committed. */
    Recorder commit() {
        return highWatermark(log.logEndOffset());
    }

    Recorder logStart(long offset) {
        return change(Json.object("op", "increment_log_start_offset", "offset", offset), () -> Json.object("changed",
            log.maybeIncrementLogStartOffset(offset, LogStartOffsetIncrementReason.ClientRecordDeletion)));
    }

    /** A clean stop and start, with the checkpoints a broker would have written. */
    Recorder reopen() {
        long start = log.logStartOffset();
        long end = log.logEndOffset();
        return change(Json.object("op", "reopen", "log_start_offset_checkpoint", start, "recovery_point_checkpoint", end),
            () -> {
                log.close();
                log = Logs.open(folder, config, time, start, end, true);
                return null;
            });
    }

    Recorder read(long offset, int maxBytes, FetchIsolation isolation, boolean minOne) {
        Map<String, Object> step = Json.object("op", "read", "offset", offset, "max_bytes", maxBytes,
            "isolation", isolation.name().toLowerCase(Locale.ROOT), "min_one", minOne);
        return ask(step, () -> Outcome.read(log.read(offset, maxBytes, isolation, minOne)));
    }

    Recorder read(long offset, int maxBytes) {
        return read(offset, maxBytes, FetchIsolation.LOG_END, true);
    }

    /** From one before the start to one past the end: single batches, now and then a slice that cuts batches. */
    Recorder readAround(int maxBytes) {
        long start = log.logStartOffset();
        long end = log.logEndOffset();
        // Every other offset of a longer log, to keep the files small.
        int step = end - start > 10 ? 2 : 1;
        read(start - 1, 1);
        for (long offset = start; offset < end; offset += step) {
            read(offset, 1);
            if (offset / step % 3 == 0)
                read(offset, maxBytes, FetchIsolation.LOG_END, false);
        }
        return read(end, maxBytes).read(end + 1, maxBytes);
    }

    Recorder offsetForTime(long... timestamps) {
        for (long timestamp : timestamps)
            ask(Json.object("op", "offset_for_time", "timestamp_ms", timestamp), () -> {
                Optional<FileRecords.TimestampAndOffset> found =
                    log.fetchOffsetByTimestamp(timestamp, Optional.empty()).timestampAndOffsetOpt();
                return found.map(at -> Json.object("offset", at.offset, "timestamp_ms", at.timestamp,
                    "leader_epoch", at.leaderEpoch.orElse(null))).orElse(null);
            });
        return this;
    }

    /** The special values, the given times, and one millisecond after each. */
    Recorder timesAround(long... timestamps) {
        offsetForTime(-1, -2, -3, -4, 0);
        for (long timestamp : timestamps)
            offsetForTime(timestamp, timestamp + 1);
        return this;
    }

    Recorder offsetForEpoch(int... epochs) {
        for (int epoch : epochs)
            ask(Json.object("op", "offset_for_epoch", "epoch", epoch), () -> Outcome.epochEnd(log.endOffsetForEpoch(epoch)));
        return this;
    }

    /** A call that may change the log: its outcome, and where the log stands after it. */
    private Recorder change(Map<String, Object> step, Callable<Map<String, Object>> call) {
        ask(step, call);
        step.putAll(Outcome.state(log));
        return this;
    }

    private Recorder ask(Map<String, Object> step, Callable<Map<String, Object>> call) {
        step.put("now_ms", time.milliseconds());
        steps.add(step);
        try {
            Map<String, Object> result = call.call();
            step.put("result", result);
        } catch (Throwable thrown) {
            Map<String, Object> error = Outcome.refused(thrown);
            if (step.get("op").equals("read"))
                error.remove("message");
            step.put("error", error);
        }
        return this;
    }

    private static String base64(ByteBuffer batches) {
        return Base64.getEncoder().encodeToString(Samples.bytes(batches));
    }

    /** Writes the case; the log is closed afterwards. */
    void finish() throws IOException {
        Path target = golden.folder("partitions/" + name);
        Logs.copy(folder, target.resolve("open"));
        Map<String, Object> document = Json.object("name", name, "about", about,
            "kafka_version", AppInfoParser.getVersion(), "config", config,
            "leader_epochs", Outcome.leaderEpochs(log), "steps", steps);
        log.close();
        Logs.copy(folder, target.resolve("closed"));
        golden.lines("partitions/" + name + "/case.json", document);
        Utils.delete(temporary.toFile());
    }
}
