import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.RecordVersion;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;

/** One partition in Kafka's own {@link UnifiedLog}, in a temporary folder, with a clock that stands still. */
final class Partition implements AutoCloseable {
    private final FixedTime time = new FixedTime(Golden.T);
    private final Map<String, String> config;
    private final Path folder;
    private final UnifiedLog log;
    private Optional<Long> checkpoint = Optional.empty();
    private Map<String, Object> lastRound;

    Partition(Map<String, String> config) throws IOException {
        this.config = config;
        folder = Files.createTempDirectory("golden");
        log = Logs.open(Files.createDirectory(folder.resolve(Logs.FOLDER)), config, time, 0, 0, true);
    }

    void append(int leaderEpoch, ByteBuffer... batches) throws IOException {
        for (ByteBuffer batch : batches)
            log.appendAsLeader(MemoryRecords.readableRecords(batch), leaderEpoch);
    }

    void appendMarker(int leaderEpoch, ByteBuffer marker) {
        short transactionVersion = 0;
        log.appendAsLeader(MemoryRecords.readableRecords(marker), leaderEpoch, AppendOrigin.COORDINATOR,
            RequestLocal.noCaching(), VerificationGuard.SENTINEL, transactionVersion);
    }

    /** As brokers before 0.11 wrote, which today's broker only does for its tests. */
    void appendLegacy(RecordVersion version, ByteBuffer records) {
        log.appendAsLeaderWithRecordVersion(MemoryRecords.readableRecords(records), 0, version);
    }

    void roll() throws IOException {
        log.roll();
    }

    /** One round of the log cleaner over everything before the active segment. */
    void clean(long now) throws Exception {
        Logs.Round round = Logs.clean(log, time, checkpoint, now);
        checkpoint = Optional.of(round.nextDirtyOffset());
        lastRound = Json.object(
            "now_ms", now,
            "first_dirty_offset", round.offsets().firstDirtyOffset(),
            "first_uncleanable_offset", round.offsets().firstUncleanableDirtyOffset(),
            "next_dirty_offset", round.nextDirtyOffset(),
            "messages_read", round.stats().messagesRead(),
            "messages_written", round.stats().messagesWritten(),
            "bytes_read", round.stats().bytesRead(),
            "bytes_written", round.stats().bytesWritten());
    }

    /** Copies the .log files as they are now, and says what Kafka reads from each. */
    void write(Golden golden, String name, String about) throws IOException {
        log.flush(true);
        Map<String, Object> files = Json.object();
        for (LogSegment segment : log.logSegments()) {
            Path file = segment.log().file().toPath();
            ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(file));
            golden.log("segments/" + name + "/" + file.getFileName(), bytes);
            files.put(file.getFileName().toString(), Json.object("batches", Describe.batches(bytes)));
        }
        Map<String, Object> document = Golden.headline(name, about);
        document.put("config", config);
        document.put("log_start_offset", log.logStartOffset());
        document.put("log_end_offset", log.logEndOffset());
        document.put("last_cleaning", lastRound);
        document.put("files", files);
        golden.json("segments/" + name + ".json", document);
    }

    @Override
    public void close() throws IOException {
        log.close();
        Utils.delete(folder.toFile());
    }
}
