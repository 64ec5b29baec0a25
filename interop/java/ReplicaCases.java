import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.server.storage.log.FetchIsolation;

import java.io.IOException;
import java.nio.ByteBuffer;

/** Followers, which take offsets as they come, and the bounds of what may be read: high watermark and log start. */
final class ReplicaCases {
    private static final long T = Golden.T;
    private static final long FAR = Integer.MAX_VALUE;

    private ReplicaCases() {
    }

    static void write(Golden golden) throws IOException {
        following(golden);
        refusals(golden);
        far(golden);
        highWatermark(golden);
        logStart(golden);
        reopened(golden);
    }

    private static ByteBuffer batch(long base, int epoch, long... timestamps) {
        return Samples.batch().base(base).leaderEpoch(epoch).of(Inputs.records(timestamps));
    }

    private static void following(Golden golden) throws IOException {
        new Recorder(golden, "follower-batches", "Several batches in a call, gaps between and inside them, epochs and codecs kept",
            Logs.config())
            .follow(3, batch(10, 1, T, T + 1), batch(12, 1, T + 2), batch(20, 3, T + 3))
            .follow(3, Samples.batch().base(21).leaderEpoch(3).codec(CompressionType.GZIP).of(Inputs.records(T + 9, T + 8)),
                Samples.batch().base(23).leaderEpoch(3).codec(CompressionType.LZ4).producer(9, 0, 0).of(Inputs.records(T + 5)))
            .follow(3, Samples.batch().base(30).leaderEpoch(3).at(new long[] {31, 35}, Inputs.records(T + 10, T + 11)))
            .follow(3, Inputs.cut(batch(40, 3, T), 60))
            .follow(3, batch(40, 3, T + 12), Inputs.cut(batch(41, 3, T), 60))
            .follow(3, Samples.batch().base(41).leaderEpoch(3).logAppendTime(T + 30).of(Inputs.records(T, T + 1)))
            .commit().readAround(150).timesAround(T, T + 3, T + 8, T + 11, T + 30).offsetForEpoch(0, 1, 2, 3, 4).finish();
        new Recorder(golden, "follower-starts-high", "The first batch is far above an empty log: the segment keeps its base",
            Logs.config())
            .follow(0, batch(1000, 0, T)).follow(0, batch(1001, 0, T + 1)).commit()
            .read(0, 100).read(999, 100).read(1000, 100).read(1001, 100).timesAround(T, T + 1).finish();
        new Recorder(golden, "follower-index", "Per batch, also inside one call, an entry is due after the interval",
            Logs.config("index.interval.bytes", "150"))
            .follow(0, batch(0, 0, T), batch(1, 0, T + 1), batch(2, 0, T + 2), batch(3, 0, T + 3), batch(4, 0, T + 4))
            .follow(0, batch(5, 0, T + 5)).commit().readAround(100).timesAround(T, T + 3, T + 5).finish();
    }

    private static void refusals(Golden golden) throws IOException {
        new Recorder(golden, "follower-refused", "Offsets that fall, offsets below the end, epochs beyond the replica's own",
            Logs.config())
            .follow(5, batch(0, 2, T), batch(1, 2, T))
            .follow(5, batch(3, 2, T), batch(2, 2, T))
            .follow(5, batch(2, 2, T, T), batch(3, 2, T))
            .follow(5, batch(1, 2, T))
            .follow(5, batch(1, 2, T, T), batch(5, 2, T))
            .follow(5, batch(2, 5, T), batch(3, 6, T), batch(4, 5, T))
            .follow(5, batch(3, 6, T))
            .follow(-1, batch(3, 5, T))
            .follow(5, Inputs.spoilt(batch(3, 5, T), bytes -> bytes.putInt(Inputs.CRC, 0)))
            .follow(5, batch(3, 5, T), Inputs.spoilt(batch(4, 5, T), bytes -> bytes.putInt(Inputs.CRC, 0)))
            .follow(5, batch(3, 4, T)).follow(5, batch(4, -1, T)).follow(5, batch(5, 5, T))
            .follow(5, Inputs.sealed(batch(6, 5, T), bytes -> bytes.putInt(Inputs.COUNT, 7)))
            .follow(5, ByteBuffer.allocate(0))
            .commit().readAround(100).offsetForEpoch(2, 4, 5, 6).finish();
    }

    private static void far(Golden golden) throws IOException {
        new Recorder(golden, "follower-far", "A segment reaches 2147483647 offsets, one more needs a new one",
            Logs.config("internal.segment.bytes", "2000"))
            .follow(0, batch(0, 0, T)).follow(0, batch(FAR, 0, T + 1)).follow(0, batch(FAR + 1, 0, T + 2))
            .follow(0, batch(2 * FAR, 0, T + 3), batch(2 * FAR + 1, 0, T + 4))
            .follow(0, batch(3 * FAR, 0, T + 5, T + 6), batch(3 * FAR + 2, 0, T + 7)).follow(0, batch(9 * FAR, 0, T + 9))
            .commit().read(1, 1).read(FAR - 1, 1).read(FAR, 1000).read(FAR + 1, 1).read(FAR + 2, 1000).read(2 * FAR + 1, 1)
            .read(3 * FAR + 2, 1).read(9 * FAR, 1).read(9 * FAR + 1, 1)
            .timesAround(T, T + 2, T + 4, T + 7, T + 9).finish();
        new Recorder(golden, "follower-far-call", "A single call that spans more offsets than a segment may hold",
            Logs.config("internal.segment.bytes", "2000"))
            .follow(0, batch(0, 0, T), batch(FAR + 1, 0, T + 1)).follow(0, batch(0, 0, T)).finish();
    }

    private static void highWatermark(Golden golden) throws IOException {
        Recorder log = new Recorder(golden, "high-watermark", "What readers see while the high watermark is behind the end",
            Logs.config("internal.segment.bytes", "310"));
        for (int i = 0; i < 6; i++)
            log.append(0, Inputs.at(T + 2 * i, T + 2 * i + 1));
        for (long mark : new long[] {0, 3, 6, 8, 99, 7, -5}) {
            log.highWatermark(mark);
            for (long offset : new long[] {0, 5, 6, 7, 12, 13})
                log.read(offset, 200, FetchIsolation.HIGH_WATERMARK, offset % 2 == 0);
            log.read(7, 200, FetchIsolation.LOG_END, true).offsetForTime(-1, -3, T + 5);
        }
        log.finish();
    }

    private static void logStart(Golden golden) throws IOException {
        Recorder log = new Recorder(golden, "log-start", "The log start moves: inside a batch, to a base, to the end, never back",
            Logs.config("internal.segment.bytes", "310"));
        for (int i = 0; i < 6; i++)
            log.append(i / 2, Inputs.at(T + 2 * i, T + 2 * i + 1));
        log.logStart(3).commit();
        for (long start : new long[] {3, 2, 6, 7, 13, 12}) {
            log.logStart(start).read(start - 1, 100).read(start, 100).offsetForTime(-2, -3, 0, T + 3, T + 7).offsetForEpoch(0, 1, 2);
            if (start == 3 || start == 7)
                log.reopen().commit().read(start - 1, 100).read(start, 100).offsetForTime(-2, 0, T + 3);
        }
        log.reopen().append(3, Inputs.one(T + 20)).commit().readAround(100).finish();
    }

    private static void reopened(Golden golden) throws IOException {
        Recorder log = new Recorder(golden, "reopened", "Every restart resets the bytes since the last index entry",
            Logs.config("index.interval.bytes", "100", "internal.segment.bytes", "700"));
        for (int i = 0; i < 7; i++) {
            log.append(0, Inputs.one(T + 3 * i));
            if (i % 2 == 1)
                log.reopen();
        }
        log.commit().readAround(150).timesAround(T, T + 3, T + 9, T + 18).finish();
        new Recorder(golden, "reopened-full", "A restart with a full index: the next append rolls",
            Logs.config("segment.index.bytes", "36", "internal.segment.bytes", "700"))
            .append(0, Inputs.one(T), Inputs.one(T + 1), Inputs.one(T + 2)).reopen().append(0, Inputs.one(T + 3)).reopen()
            .append(0, Inputs.one(T + 4), Inputs.one(T + 5)).commit().readAround(150).timesAround(T, T + 2, T + 4).finish();
        new Recorder(golden, "reopened-empty", "A log that never got a record", Logs.config())
            .reopen().read(-1, 10).read(0, 10).read(1, 10).timesAround(T).offsetForEpoch(-1, 0, 1).reopen()
            .append(0, Inputs.one(T)).finish();
    }
}
