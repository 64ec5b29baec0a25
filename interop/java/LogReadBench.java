import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.FileRecords.TimestampAndOffset;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.LongBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.zip.CRC32C;

/**
 * Single questions to a log that was closed in order, each with its latency:
 * {@code fetch|time folder=DIR questions=FILE}, and {@code max-bytes=N} for a fetch.
 *
 * <p>Questions are offsets or times, 64 bits big-endian. Kafka's answer to a fetch is a place in a file; the bytes are read
 * into one direct buffer that is used again, the cheapest way there is. A check answers with a checksum of all answers.
 */
final class LogReadBench implements LogBench.Job {
    private final UnifiedLog log;
    private final long[] questions;
    private final Question question;

    /** Asks one question, whose answer is added to the checksum if there is one. */
    private interface Question {
        void ask(long value, CRC32C checksum) throws IOException;
    }

    private LogReadBench(UnifiedLog log, LogBench.Options options, Question question) throws IOException {
        this.log = log;
        LongBuffer values = ByteBuffer.wrap(Files.readAllBytes(Path.of(options.text("questions")))).asLongBuffer();
        questions = new long[values.remaining()];
        values.get(questions);
        this.question = question;
    }

    static LogReadBench fetch(LogBench.Options options, KafkaScheduler scheduler) throws IOException {
        UnifiedLog log = LogBench.open(options.folder(), options.logSettings(), scheduler, true);
        int maxBytes = options.number("max-bytes");
        ByteBuffer buffer = ByteBuffer.allocateDirect(maxBytes);
        return new LogReadBench(log, options, (offset, checksum) -> {
            FileRecords records = (FileRecords) log.read(offset, maxBytes, FetchIsolation.LOG_END, true).records;
            buffer.clear().limit(records.sizeInBytes());
            records.readInto(buffer, 0);
            if (checksum != null)
                checksum.update(buffer);
        });
    }

    static LogReadBench offsetForTime(LogBench.Options options, KafkaScheduler scheduler) throws IOException {
        UnifiedLog log = LogBench.open(options.folder(), options.logSettings(), scheduler, true);
        ByteBuffer answer = ByteBuffer.allocate(2 * Long.BYTES);
        return new LogReadBench(log, options, (timestamp, checksum) -> {
            TimestampAndOffset found = log.fetchOffsetByTimestamp(timestamp, Optional.empty()).timestampAndOffsetOpt().orElseThrow();
            if (checksum != null)
                checksum.update(answer.clear().putLong(found.offset).putLong(found.timestamp).flip());
        });
    }

    @Override
    public Map<String, Object> run(boolean isCheck) throws IOException {
        if (isCheck) {
            CRC32C checksum = new CRC32C();
            for (long value : questions)
                question.ask(value, checksum);
            return Json.object("count", questions.length, "checksum", checksum.getValue());
        }
        long[] nanos = new long[questions.length];
        for (int i = 0; i < questions.length; i++) {
            long start = System.nanoTime();
            question.ask(questions[i], null);
            nanos[i] = System.nanoTime() - start;
        }
        return LogBench.latencies(nanos);
    }

    @Override
    public void close() throws IOException {
        LogBench.closeUnsynced(log);
    }
}
