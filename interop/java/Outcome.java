import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.Records;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.storage.internals.log.EpochEntry;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.RecordValidationException;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** What Kafka answered, as JSON values: results of calls, refusals, and the state a log is in. */
final class Outcome {
    private Outcome() {
    }

    static Map<String, Object> appended(LogAppendInfo info) {
        return Json.object(
            "first_offset", info.firstOffset(),
            "last_offset", info.lastOffset(),
            "max_timestamp_ms", info.maxTimestamp(),
            "log_append_time_ms", info.logAppendTime(),
            "valid_bytes", info.validBytes());
    }

    /** A refusal; the real reason of a failed validation is inside the exception that is thrown. */
    static Map<String, Object> refused(Throwable thrown) {
        List<Object> recordErrors = new ArrayList<>();
        Throwable reason = thrown;
        if (thrown instanceof RecordValidationException validation) {
            reason = validation.invalidException();
            validation.recordErrors().forEach(error -> recordErrors.add(List.of(error.batchIndex, error.message)));
        }
        Map<String, Object> error = Json.object(
            "class", reason.getClass().getSimpleName(),
            "kafka_error", Errors.forException(reason).name(),
            "message", message(reason));
        if (!recordErrors.isEmpty())
            error.put("record_errors", recordErrors);
        return error;
    }

    /** The message without what differs from run to run: the temporary folder, file times, identity hashes. */
    static String message(Throwable thrown) {
        return thrown.getMessage() == null ? null : thrown.getMessage()
            .replaceAll("/[^ ,)]*/golden\\d+/", "")
            .replaceAll("lastModifiedTime=\\d+", "lastModifiedTime=TIME")
            .replaceAll("@[0-9a-f]{5,8}\\b", "@HASH");
    }

    static Map<String, Object> read(FetchDataInfo info) throws IOException {
        ByteBuffer bytes = bytes(info.records);
        Map<String, Object> result = Json.object("size", bytes.remaining());
        if (bytes.hasRemaining()) {
            result.put("sha256", sha256(bytes));
            Iterator<? extends RecordBatch> batches = info.records.batches().iterator();
            result.put("first_offset", batches.hasNext() ? batches.next().baseOffset() : null);
        }
        boolean known = !info.fetchOffsetMetadata.messageOffsetOnly();
        result.put("position", known ? info.fetchOffsetMetadata.relativePositionInSegment : null);
        result.put("segment_base_offset", known ? info.fetchOffsetMetadata.segmentBaseOffset : null);
        result.put("first_entry_incomplete", info.firstEntryIncomplete);
        if (info.abortedTransactions.isPresent()) {
            List<Object> aborted = new ArrayList<>();
            for (FetchResponseData.AbortedTransaction txn : info.abortedTransactions.get())
                aborted.add(List.of(txn.producerId(), txn.firstOffset()));
            result.put("aborted_transactions", aborted);
        }
        return result;
    }

    static Map<String, Object> epochEnd(Optional<OffsetAndEpoch> end) {
        return end.map(found -> Json.object("epoch", found.epoch(), "offset", found.offset())).orElse(null);
    }

    /** Where the log stands, as every step that may change it reports. */
    static Map<String, Object> state(UnifiedLog log) {
        List<Long> bases = new ArrayList<>();
        List<Integer> sizes = new ArrayList<>();
        for (LogSegment segment : log.logSegments()) {
            bases.add(segment.baseOffset());
            sizes.add(segment.size());
        }
        return Json.object(
            "log_start_offset", log.logStartOffset(),
            "log_end_offset", log.logEndOffset(),
            "high_watermark", log.highWatermark(),
            "recovery_point", log.recoveryPoint(),
            "segment_bases", bases,
            "sizes", sizes);
    }

    static List<Object> leaderEpochs(UnifiedLog log) {
        List<Object> entries = new ArrayList<>();
        for (EpochEntry entry : log.leaderEpochCache().epochEntries())
            entries.add(List.of(entry.epoch(), entry.startOffset()));
        return entries;
    }

    private static ByteBuffer bytes(Records records) throws IOException {
        if (records instanceof MemoryRecords memory)
            return memory.buffer();
        ByteBuffer buffer = ByteBuffer.allocate(records.sizeInBytes());
        ((FileRecords) records).readInto(buffer, 0);
        return buffer;
    }

    static String sha256(ByteBuffer buffer) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            digest.update(buffer.duplicate());
            return HexFormat.of().formatHex(digest.digest());
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }
}
