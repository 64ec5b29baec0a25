import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.FileLogInputStream.FileChannelRecordBatch;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.utils.Crc32C;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.storage.internals.log.EpochEntry;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Lets Kafka open, read, close, open again and append to a partition directory that we wrote. A request has "directory" (named
 * topic-partition; it is changed), "config", "log_start_offset", "recovery_point", "last_shutdown_clean", "now_ms", "times"
 * (timestamps to look up), and "closed", a folder for a copy of the files as they are after Kafka has opened and closed the log.
 *
 * <p>Answers where the log stands, what is in its files, and what became of the append; with an "error" where Kafka throws.
 */
final class OpenLogJob implements Jobs.Job {
    @Override
    public Object run(Map<String, Object> job) {
        Map<String, Object> answer = Json.object();
        try {
            Path folder = Path.of((String) job.get("directory"));
            Map<String, String> config = Jobs.config(job);
            FixedTime time = new FixedTime(Jobs.number(job, "now_ms"));
            UnifiedLog log = Logs.open(folder, config, time, Jobs.number(job, "log_start_offset"), Jobs.number(job, "recovery_point"),
                (Boolean) job.get("last_shutdown_clean"));
            describe(log, (List<?>) job.get("times"), answer);
            log.close();
            Logs.copy(folder, Path.of((String) job.get("closed")));
            goOn(folder, config, time, log.logStartOffset(), log.logEndOffset(), answer);
        } catch (Throwable thrown) {
            // Some refusals are unchecked, and one is an Error of an assertion: all are what Kafka says here.
            answer.put("error", Jobs.trace(thrown));
        }
        return answer;
    }

    /** Where the log stands, what is in its files, what a reader gets, and where its timestamps are found. */
    private static void describe(UnifiedLog log, List<?> times, Map<String, Object> answer) throws IOException {
        answer.putAll(Outcome.state(log));
        answer.put("leader_epochs", Outcome.leaderEpochs(log));
        List<Object> segments = new ArrayList<>();
        for (LogSegment segment : log.logSegments()) {
            List<Object> batches = new ArrayList<>();
            for (FileChannelRecordBatch batch : segment.log().batches()) {
                batch.ensureValid();
                batches.add(batch(batch, batch.position()));
            }
            segments.add(Json.object("base_offset", segment.baseOffset(), "batches", batches));
        }
        answer.put("segments", segments);
        answer.put("read", read(log));
        List<Object> found = new ArrayList<>();
        for (Object timestamp : times)
            found.add(log.fetchOffsetByTimestamp(((Number) timestamp).longValue(), Optional.empty()).timestampAndOffsetOpt()
                .map(at -> List.of(at.offset, at.timestamp)).orElse(null));
        answer.put("offsets_for_times", found);
    }

    private static Map<String, Object> batch(RecordBatch batch, int position) {
        return Json.object(
            "position", position,
            "size", batch.sizeInBytes(),
            "base_offset", batch.baseOffset(),
            "last_offset", batch.lastOffset(),
            "count", batch.countOrNull(),
            "magic", (int) batch.magic(),
            "max_timestamp_ms", batch.maxTimestamp(),
            "leader_epoch", batch.partitionLeaderEpoch(),
            "crc", batch.checksum(),
            "sha256", Outcome.sha256(bytes(batch)));
    }

    /** The offsets of what is read batch by batch, each found by its offset; the digest is of all their bytes. */
    private static Map<String, Object> read(UnifiedLog log) throws IOException {
        List<Object> offsets = new ArrayList<>();
        long crc = 0;
        long next = log.logStartOffset();
        while (next < log.logEndOffset()) {
            long last = -1;
            for (RecordBatch batch : log.read(next, 1, FetchIsolation.LOG_END, true).records.batches()) {
                crc = Crc32C.compute(Samples.concat(longs(crc), bytes(batch)), 0, Long.BYTES + batch.sizeInBytes());
                batch.iterator().forEachRemaining(record -> offsets.add(record.offset()));
                last = batch.lastOffset();
            }
            if (last < next)
                break; // a log that was truncated ends above its last batch
            next = last + 1;
        }
        return Json.object("offsets", offsets, "chained_crc", crc);
    }

    /** A clean stop and start, and an append by Kafka. */
    private static void goOn(Path folder, Map<String, String> config, FixedTime time, long start, long end,
                             Map<String, Object> answer) throws IOException {
        UnifiedLog log = Logs.open(folder, config, time, start, end, true);
        int epoch = log.leaderEpochCache().latestEntry().map(EpochEntry::epoch).orElse(0);
        SimpleRecord record = new SimpleRecord(time.milliseconds(), "kafka".getBytes(StandardCharsets.UTF_8),
            "was here".getBytes(StandardCharsets.UTF_8));
        answer.put("appended", Outcome.appended(log.appendAsLeader(MemoryRecords.withRecords(Compression.NONE, record), epoch)));
        answer.put("log_end_offset_after", log.logEndOffset());
        log.close();
        List<String> files = new ArrayList<>();
        for (Path file : Logs.files(folder))
            files.add(file.getFileName().toString());
        answer.put("files", files);
    }

    private static ByteBuffer bytes(RecordBatch batch) {
        ByteBuffer bytes = ByteBuffer.allocate(batch.sizeInBytes());
        batch.writeTo(bytes);
        return bytes.flip();
    }

    private static ByteBuffer longs(long value) {
        return ByteBuffer.allocate(Long.BYTES).putLong(value).flip();
    }
}
