import java.io.IOException;
import java.util.Map;

/** When the offset index and the time index get entries, and what happens when one of them is full. */
final class IndexCases {
    private static final long T = Golden.T;

    private IndexCases() {
    }

    static void write(Golden golden) throws IOException {
        intervals(golden);
        full(golden);
        times(golden);
    }

    private static void intervals(Golden golden) throws IOException {
        plain(golden, "index-dense", "An entry for every batch but the first of a segment",
            Logs.config("index.interval.bytes", "0"));
        plain(golden, "index-interval-100", "An entry for about every second batch",
            Logs.config("index.interval.bytes", "100"));
        Recorder exact = new Recorder(golden, "index-interval-exact",
            "Batches of exactly the interval: an entry needs one byte more than that",
            Logs.config("index.interval.bytes", "100", "internal.segment.bytes", "1000"));
        for (int size : new int[] {100, 100, 100, 101, 100, 99, 101, 100, 100})
            exact.append(0, Inputs.sized(size, T + size));
        exact.commit().readAround(150).timesAround(T + 99, T + 100, T + 101).finish();

        Recorder large = new Recorder(golden, "index-interval-4096",
            "Kafka's default interval: the batch after 4096 bytes gets no entry yet, the next one does",
            Logs.config("index.interval.bytes", "4096", "internal.segment.bytes", "9000"));
        for (int i = 0; i < 6; i++)
            large.append(0, Inputs.sized(1024, T + i));
        large.commit().readAround(2000).timesAround(T, T + 4, T + 5).finish();
    }

    private static void plain(Golden golden, String name, String about, Map<String, String> config) throws IOException {
        Recorder log = new Recorder(golden, name, about, config);
        for (int i = 0; i < 9; i++)
            log.append(0, i % 3 == 0 ? Inputs.at(T + 10 * i, T + 10 * i + 5) : Inputs.one(T + 10 * i));
        log.commit().readAround(150).timesAround(T, T + 5, T + 40, T + 80).finish();
    }

    private static void full(Golden golden) throws IOException {
        for (int bytes : new int[] {16, 24, 32, 36}) {
            Recorder rising = new Recorder(golden, "time-index-full-" + bytes,
                "Times rise, so the time index (one slot kept back) is full before the offset index",
                Logs.config("segment.index.bytes", "" + bytes, "internal.segment.bytes", "2000"));
            Recorder equal = new Recorder(golden, "offset-index-full-" + bytes,
                "All times are equal, so the offset index is full first, once the time index has three slots",
                Logs.config("segment.index.bytes", "" + bytes, "internal.segment.bytes", "2000"));
            for (int i = 0; i < 7; i++) {
                rising.append(0, Inputs.one(T + i));
                equal.append(0, Inputs.one(T));
            }
            rising.commit().timesAround(T, T + 4, T + 6).read(3, 1000).read(6, 1).finish();
            equal.commit().timesAround(T).read(3, 1000).read(6, 1).finish();
        }
    }

    private static void times(Golden golden) throws IOException {
        Recorder unordered = new Recorder(golden, "times-unordered",
            "Times that fall and rise: the time index skips what is not above its last entry", Logs.config());
        long[] delays = {50, 10, 60, 60, 20, 70, 65, 70, 71, 5, 80, 79};
        for (long delay : delays)
            unordered.append(0, Inputs.at(T + delay, T + delay - 3));
        unordered.commit().readAround(200).timesAround(T + 2, T + 10, T + 47, T + 60, T + 65, T + 70, T + 79, T + 80).finish();

        Recorder untimed = new Recorder(golden, "times-missing",
            "Batches without times between others, and a segment without any", Logs.config("internal.segment.bytes", "310"));
        long[] times = {T, -1, T + 5, -1, -1, -1, -1, -1, T + 3, T + 9};
        for (long time : times)
            untimed.append(0, Inputs.one(time));
        untimed.commit().readAround(100).timesAround(T, T + 3, T + 5, T + 9).finish();

        Recorder same = new Recorder(golden, "times-max-tie",
            "The largest time appears in several segments, batches and records: the first of them is the answer",
            Logs.config("internal.segment.bytes", "310"));
        same.append(0, Inputs.at(T, T + 1), Inputs.at(T + 3, T + 9, T + 9), Inputs.at(T + 9), Inputs.at(T + 2, T + 9, T + 1),
            Inputs.at(T + 9, T + 8), Inputs.at(T));
        same.commit().timesAround(T, T + 2, T + 8, T + 9).finish();

        Recorder appendTime = new Recorder(golden, "times-log-append-time",
            "The broker's clock stamps the batches; it may stand still or go back",
            Logs.config("message.timestamp.type", "LogAppendTime"));
        for (long delay : new long[] {0, 10, 10, 7, 30, 29, 40, 50, 60})
            appendTime.at(T + delay).append(0, Inputs.at(T - 500, T + 900));
        appendTime.commit().readAround(200).timesAround(T - 500, T, T + 7, T + 10, T + 30, T + 60, T + 900).finish();
    }
}
