import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.common.errors.KafkaStorageException;
import org.apache.kafka.common.record.MemoryRecords;
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
import java.util.Base64;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * Plays steps that someone else chose. The "folder" of a request has a case.json with "config" and "steps", without answers. It
 * is given Kafka's answers, and the folders open/ and closed/ are put beside it: the same as a case of tests/golden/partitions,
 * which {@link Recorder} writes, and which the Python tests replay. Answers nothing else.
 */
final class PlayStepsJob implements Jobs.Job {
    @Override
    public Object run(Map<String, Object> request) throws IOException {
        Path scene = Path.of((String) request.get("folder"));
        Path file = scene.resolve("case.json");
        Map<String, Object> document = new ObjectMapper().readValue(file.toFile(), new TypeReference<>() { });
        List<Map<String, Object>> steps = new ObjectMapper().convertValue(document.get("steps"), new TypeReference<>() { });
        Path temporary = Files.createDirectory(scene.resolve("work"));
        Player player = new Player(Files.createDirectory(temporary.resolve(Logs.FOLDER)), Jobs.config(document), scene);
        for (Map<String, Object> step : steps)
            player.play(step);
        Logs.copy(player.folder, scene.resolve("open"));
        document.put("kafka_version", AppInfoParser.getVersion());
        document.put("leader_epochs", Outcome.leaderEpochs(player.log));
        document.put("steps", steps);
        try {
            player.log.close();
        } catch (KafkaStorageException thrown) {
            document.put("close_error", Outcome.refused(thrown));
        }
        Logs.copy(player.folder, scene.resolve("closed"));
        Utils.delete(temporary.toFile());
        Files.writeString(file, Json.lines(document));
        return null;
    }

    /** A log, and what is done to it. */
    private static final class Player {
        /** Steps that ask and change nothing. */
        private static final Set<String> QUESTIONS = Set.of("read", "offset_for_time", "offset_for_epoch", "choose");

        private final Path folder;
        private final Map<String, String> config;
        private final FixedTime time = new FixedTime(Golden.T);
        private final CleanSteps cleaning;
        private UnifiedLog log;

        private Player(Path folder, Map<String, String> config, Path scene) throws IOException {
            this.folder = folder;
            this.config = config;
            cleaning = new CleanSteps(folder, scene);
            log = Logs.open(folder, config, time, 0, 0, true);
        }

        private void play(Map<String, Object> step) {
            time.set(Jobs.number(step, "now_ms"));
            String op = (String) step.get("op");
            try {
                Map<String, Object> result = answer(op, step);
                step.put("result", result);
            } catch (Throwable thrown) {
                step.put("error", Outcome.refused(thrown));
            }
            if (!QUESTIONS.contains(op)) {
                step.putAll(Outcome.state(log));
                step.put("last_stable_offset", log.lastStableOffset());
            }
        }

        private Map<String, Object> answer(String op, Map<String, Object> step) throws Exception {
            return switch (op) {
                case "append" -> Outcome.appended(log.appendAsLeader(batches(step), epoch(step), origin(step),
                    RequestLocal.noCaching(), VerificationGuard.SENTINEL, (short) 0));
                case "append_as_follower" -> Outcome.appended(log.appendAsFollower(batches(step), epoch(step)));
                case "roll" -> Json.object("base_offset", log.roll().baseOffset());
                case "flush" -> flush();
                case "truncate_to" -> Json.object("truncated", log.truncateTo(offset(step)));
                case "truncate_fully_and_start_at" -> truncateFully(offset(step));
                case "update_high_watermark" -> Json.object("high_watermark", log.updateHighWatermark(offset(step)));
                case "increment_log_start_offset" -> Json.object("changed",
                    log.maybeIncrementLogStartOffset(offset(step), LogStartOffsetIncrementReason.ClientRecordDeletion));
                case "delete_old_segments" -> Json.object("deleted", log.deleteOldSegments());
                case "reopen" -> reopen(step);
                case "read" -> Outcome.read(log.read(offset(step), (int) Jobs.number(step, "max_bytes"),
                    FetchIsolation.valueOf(upper(step, "isolation")), (Boolean) step.get("min_one")));
                case "offset_for_time" -> log.fetchOffsetByTimestamp(Jobs.number(step, "timestamp_ms"), Optional.empty())
                    .timestampAndOffsetOpt().map(at -> Json.object("offset", at.offset, "timestamp_ms", at.timestamp,
                        "leader_epoch", at.leaderEpoch.orElse(null))).orElse(null);
                case "offset_for_epoch" -> Outcome.epochEnd(log.endOffsetForEpoch((int) Jobs.number(step, "epoch")));
                case "clean" -> cleaning.clean(log, time, step);
                case "choose" -> cleaning.choose(log, time, step);
                case "touch" -> CleanSteps.touch(log, step);
                default -> throw new IllegalStateException("no such step: " + op);
            };
        }

        private Map<String, Object> flush() {
            log.flush(false);
            return null;
        }

        private Map<String, Object> truncateFully(long offset) {
            log.truncateFullyAndStartAt(offset, Optional.empty());
            return null;
        }

        /** A stop and a start, with the checkpoint that the step names; the start offset becomes part of the step. */
        private Map<String, Object> reopen(Map<String, Object> step) throws IOException {
            long start = log.logStartOffset();
            step.put("log_start_offset_checkpoint", start);
            log.close();
            log = Logs.open(folder, config, time, start, Jobs.number(step, "recovery_point_checkpoint"),
                (Boolean) step.get("is_clean"));
            return null;
        }

        private static MemoryRecords batches(Map<String, Object> step) {
            return MemoryRecords.readableRecords(ByteBuffer.wrap(Base64.getDecoder().decode((String) step.get("batches"))));
        }

        private static AppendOrigin origin(Map<String, Object> step) {
            return AppendOrigin.valueOf(upper(step, "origin"));
        }

        private static String upper(Map<String, Object> step, String name) {
            return ((String) step.get(name)).toUpperCase(Locale.ROOT);
        }

        private static int epoch(Map<String, Object> step) {
            return (int) Jobs.number(step, "leader_epoch");
        }

        private static long offset(Map<String, Object> step) {
            return Jobs.number(step, "offset");
        }
    }
}
