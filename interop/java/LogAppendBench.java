import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CyclicBarrier;

/**
 * Appends ready batches to a fresh log: {@code append input=FILE.log folder=DIR role=leader|follower batches=N}, and
 * {@code run=N} batches a call for a follower, {@code threads=N} for a leader.
 *
 * <p>A leader takes one batch a call from a client, whatever the caller has. It writes offsets into the caller's buffer, so
 * the base offset is set to 0 before each append, as a client sends it. A check leaves the log closed in its folder.
 */
final class LogAppendBench implements LogBench.Job {
    private static final int LEADER_EPOCH = 0;

    private final Path folder;
    private final LogConfig config;
    private final KafkaScheduler scheduler;
    private final boolean isLeader;
    private final int threads;
    private final List<ByteBuffer> calls;
    private final int batches;

    LogAppendBench(LogBench.Options options, KafkaScheduler scheduler) throws IOException {
        folder = options.folder();
        config = new LogConfig(options.logSettings());
        this.scheduler = scheduler;
        isLeader = options.text("role").equals("leader");
        threads = isLeader ? options.number("threads") : 1;
        batches = options.number("batches");
        calls = slices(LogBench.load(Path.of(options.text("input"))), isLeader ? 1 : options.number("run"), batches);
    }

    /** The first batches of a buffer, so many a slice. */
    static List<ByteBuffer> slices(ByteBuffer input, int batchesPerSlice, int batches) {
        List<ByteBuffer> slices = new ArrayList<>();
        int start = 0;
        int end = 0;
        int count = 0;
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(input).batches()) {
            end += batch.sizeInBytes();
            count++;
            if (count % batchesPerSlice == 0 || count == batches) {
                slices.add(input.slice(start, end - start));
                start = end;
            }
            if (count == batches)
                return slices;
        }
        throw new IllegalArgumentException("the input has " + count + " batches, not " + batches);
    }

    @Override
    public Map<String, Object> run(boolean isCheck) throws Exception {
        LogBench.makeEmpty(folder);
        UnifiedLog log = LogBench.open(folder, config, scheduler, true);
        long nanos = threads == 1 ? appendAll(log, 0, 1) : appendInThreads(log);
        Map<String, Object> answer = Json.object(
            "count", batches, "seconds", nanos / 1e9, "end_offset", log.logEndOffset(), "size_bytes", log.size());
        if (isCheck)
            log.close();
        else
            log.delete(); // without a flush: what was written is dropped, not brought to the disk while the other side runs
        return answer;
    }

    /** Every {@code step}-th call from the {@code first} on: the nanoseconds it took. */
    private long appendAll(UnifiedLog log, int first, int step) throws IOException {
        long start = System.nanoTime();
        for (int i = first; i < calls.size(); i += step) {
            ByteBuffer buffer = calls.get(i);
            if (isLeader) {
                buffer.putLong(0, 0);
                log.appendAsLeader(MemoryRecords.readableRecords(buffer), LEADER_EPOCH);
            } else {
                log.appendAsFollower(MemoryRecords.readableRecords(buffer), LEADER_EPOCH);
            }
        }
        return System.nanoTime() - start;
    }

    private long appendInThreads(UnifiedLog log) throws Exception {
        CyclicBarrier barrier = new CyclicBarrier(threads + 1);
        List<Throwable> failures = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            int first = i;
            new Thread(() -> {
                try {
                    barrier.await();
                    appendAll(log, first, threads);
                } catch (Throwable e) {
                    synchronized (failures) {
                        failures.add(e);
                    }
                }
                try {
                    barrier.await();
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            }).start();
        }
        barrier.await();
        long start = System.nanoTime();
        barrier.await();
        long nanos = System.nanoTime() - start;
        if (!failures.isEmpty())
            throw new IllegalStateException(failures.get(0));
        return nanos;
    }
}
