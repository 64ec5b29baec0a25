import org.apache.kafka.common.record.CompressionType;

import java.io.IOException;

/** Cutting off the end of a log, and throwing all of it away. */
final class TruncationCases {
    private static final long T = Golden.T;

    private TruncationCases() {
    }

    static void write(Golden golden) throws IOException {
        targets(golden, "start", 6, 0);
        targets(golden, "inside-batch", 6, 5);
        targets(golden, "inside-first-batch", 6, 1);
        targets(golden, "batch-start", 6, 6);
        targets(golden, "segment-base", 6, 4);
        targets(golden, "last-batch", 6, 7);
        targets(golden, "end", 6, 8);
        targets(golden, "above-end", 6, 20);
        targets(golden, "negative", 6, -1);
        targets(golden, "first-segment", 9, 2);
        targets(golden, "twice", 9, 10, 7, 7, 2);
        bounds(golden);
        fully(golden);
    }

    /**
     * Up to nine batches in segments at 0, 4 and 8: offsets (0, 1), 2, 3, (4, 5), ..., so six end at 8 and nine at 12.
     * Epochs start at 0, 3, 6 and 10.
     */
    private static Recorder filled(Golden golden, String name, String about, int batches) throws IOException {
        Recorder log = new Recorder(golden, name, about, Logs.config("internal.segment.bytes", "300"));
        int[] epochs = {0, 0, 1, 1, 2, 2, 2, 3, 3};
        for (int i = 0; i < batches; i++)
            log.append(epochs[i], i % 3 == 0 ? Inputs.at(T + 10 * i, T + 10 * i + 5) : Inputs.one(T + 10 * i));
        return log;
    }

    private static void targets(Golden golden, String what, int batches, long... targets) throws IOException {
        Recorder log = filled(golden, "truncate-to-" + what, "Cut at an offset, then appended to", batches).commit();
        for (long target : targets)
            log.truncateTo(target);
        // The targets that change nothing, or little, need no look at everything.
        boolean shorter = log.log().logEndOffset() < 7;
        if (shorter)
            log.readAround(150);
        log.offsetForTime(-1, -2, -3, 0, T + 20, T + 35).offsetForEpoch(0, 1, 2, 3)
            .append(4, Inputs.one(T + 33)).append(4, Inputs.one(T + 34)).commit().offsetForTime(-3, T + 33).finish();
    }

    private static void bounds(Golden golden) throws IOException {
        filled(golden, "truncate-below-log-start", "A target below the log start takes the log start along", 6).commit()
            .logStart(6).truncateTo(5).read(4, 100).read(5, 100).append(4, Inputs.one(T + 50)).commit()
            .readAround(100).timesAround(T + 30).finish();
        filled(golden, "truncate-log-start-in-batch", "A log start inside a batch whose segment is cut at that batch", 6).commit()
            .logStart(5).truncateTo(5).read(4, 100).read(5, 100).append(4, Inputs.one(T + 50)).commit().readAround(100).finish();
        filled(golden, "truncate-watermark-behind", "The high watermark below the targets stays, the recovery point follows; "
                + "a restart finds the end where the batches end", 6)
            .highWatermark(3).flush().truncateTo(7).truncateTo(5).reopen().highWatermark(5).readAround(100).finish();
        filled(golden, "truncate-reopened", "Cut, closed, opened again", 6).commit().truncateTo(6).reopen().commit()
            .append(4, Inputs.one(T + 50)).readAround(100).timesAround(T + 35, T + 50).finish();
        new Recorder(golden, "truncate-compressed", "Targets inside compressed batches, indexes sparse",
            Logs.config("index.interval.bytes", "150", "internal.segment.bytes", "900"))
            .append(0, Samples.batch().codec(CompressionType.GZIP).of(Inputs.records(T, T + 1, T + 2)))
            .append(1, Samples.batch().codec(CompressionType.LZ4).of(Inputs.records(T + 3, T + 4, T + 5)))
            .append(2, Samples.batch().codec(CompressionType.ZSTD).of(Inputs.records(T + 6, T + 7, T + 8)))
            .append(3, Inputs.at(T + 9)).commit().truncateTo(7).readAround(100).timesAround(T + 5, T + 7)
            .truncateTo(4).readAround(100).append(4, Inputs.at(T + 10)).commit().timesAround(T + 10).finish();
    }

    private static void fully(Golden golden) throws IOException {
        for (long start : new long[] {0, 6, 8, 1000})
            filled(golden, "truncate-fully-" + start, "Everything thrown away, the log begins anew", 6).commit()
                .truncateFullyAndStartAt(start).read(start - 1, 100).read(start, 100).timesAround(T)
                .append(4, Inputs.one(T + 70)).append(4, Inputs.one(T + 71)).commit()
                .read(start, 1000).read(start + 1, 1000).timesAround(T + 70).offsetForEpoch(0, 3, 4).finish();
    }
}
