import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecords.FilterResult;
import org.apache.kafka.common.record.MemoryRecords.RecordFilter;
import org.apache.kafka.common.record.MemoryRecords.RecordFilter.BatchRetention;
import org.apache.kafka.common.record.MemoryRecords.RecordFilter.BatchRetentionResult;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/** One call of {@link MemoryRecords#filterTo}, the function with which the log cleaner rewrites batches. */
final class Retain {
    private static final long DELETE_RETENTION_MS = 86_400_000;

    private final ByteBuffer input;
    private final long[] keep;
    private BatchRetention retention = BatchRetention.DELETE_EMPTY;
    private boolean markerOfEmptyTransaction;
    private long now = Golden.T + 1_000_000;

    private FilterResult result;

    private Retain(ByteBuffer input, long[] keep) {
        this.input = input;
        this.keep = keep;
    }

    /** Keeps the records at these offsets of one or more batches. */
    static Retain keep(ByteBuffer input, long... offsets) {
        return new Retain(input, offsets);
    }

    Retain retention(BatchRetention value) {
        retention = value;
        return this;
    }

    /** The cleaner's word that the transaction of this marker has no data left. */
    Retain markerOfEmptyTransaction() {
        markerOfEmptyTransaction = true;
        return this;
    }

    Retain now(long value) {
        now = value;
        return this;
    }

    /** The bytes that filterTo writes. */
    ByteBuffer output() {
        Set<Long> offsets = new HashSet<>();
        Arrays.stream(keep).forEach(offsets::add);
        RecordFilter filter = new RecordFilter(now, DELETE_RETENTION_MS) {
            @Override
            protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                return new BatchRetentionResult(retention, markerOfEmptyTransaction);
            }

            @Override
            protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
                return offsets.contains(record.offset());
            }
        };
        result = MemoryRecords.readableRecords(input.duplicate())
            .filterTo(filter, ByteBuffer.allocate(1024), BufferSupplier.create());
        return result.outputBuffer().duplicate().flip();
    }

    void write(Golden golden, String name, String about) throws IOException {
        ByteBuffer output = output();
        golden.log("retain/" + name + ".input.log", input);
        golden.log("retain/" + name + ".output.log", output);
        Map<String, Object> document = Golden.headline(name, about);
        document.put("keep", keep);
        document.put("retention", retention.name());
        document.put("contains_marker_for_empty_txn", markerOfEmptyTransaction);
        document.put("now_ms", now);
        document.put("delete_retention_ms", DELETE_RETENTION_MS);
        document.put("delete_horizon_ms", newHorizon(output));
        document.put("result", Json.object(
            "messages_read", result.messagesRead(),
            "bytes_read", result.bytesRead(),
            "messages_retained", result.messagesRetained(),
            "bytes_retained", result.bytesRetained(),
            "max_offset", result.maxOffset(),
            "max_timestamp_ms", result.maxTimestamp(),
            "shallow_offset_of_max_timestamp", result.shallowOffsetOfMaxTimestamp()));
        document.put("input", Json.object("batches", Describe.batches(input)));
        document.put("output", Json.object("batches", Describe.batches(output)));
        golden.json("retain/" + name + ".json", document);
    }

    /** The horizon that filterTo set on a batch, or null if it set none; one that was there before does not count. */
    private Long newHorizon(ByteBuffer output) {
        Set<Long> before = new HashSet<>();
        for (RecordBatch batch : MemoryRecords.readableRecords(input).batches())
            batch.deleteHorizonMs().ifPresent(before::add);
        for (RecordBatch batch : MemoryRecords.readableRecords(output).batches())
            if (batch.deleteHorizonMs().isPresent() && !before.contains(batch.deleteHorizonMs().getAsLong()))
                return batch.deleteHorizonMs().getAsLong();
        return null;
    }
}
