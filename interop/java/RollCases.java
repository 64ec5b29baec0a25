import java.io.IOException;
import java.util.Map;

/** When a log begins a new segment: by size, by the time of the data, by the clock, by call. */
final class RollCases {
    private static final long T = Golden.T;

    private RollCases() {
    }

    static void write(Golden golden) throws IOException {
        size(golden);
        dataTime(golden);
        clock(golden);
        compactionLag(golden);
        called(golden);
    }

    private static void size(Golden golden) throws IOException {
        Recorder exact = new Recorder(golden, "roll-size-exact",
            "Segments of 300 bytes: filled to the byte, one byte more, one batch of the full size",
            Logs.config("internal.segment.bytes", "300"));
        for (int size : new int[] {100, 100, 100, 100, 100, 101, 99, 100, 100, 300, 300, 80, 221, 220})
            exact.append(0, Inputs.sized(size, T));
        exact.commit().read(2, 300).read(4, 300).read(13, 300).timesAround(T).finish();
        Recorder follower = new Recorder(golden, "roll-size-follower",
            "One call of a follower goes to one segment, whole, even if it has several batches",
            Logs.config("internal.segment.bytes", "300"));
        follower.follow(0, Inputs.sized(Samples.batch().base(0), 100, T), Inputs.sized(Samples.batch().base(1), 100, T + 1));
        follower.follow(0, Inputs.sized(Samples.batch().base(2), 100, T), Inputs.sized(Samples.batch().base(3), 100, T + 2));
        follower.follow(0, Inputs.sized(Samples.batch().base(4), 100, T));
        follower.follow(0, Inputs.sized(Samples.batch().base(5), 150, T), Inputs.sized(Samples.batch().base(6), 151, T));
        follower.commit().readAround(150).timesAround(T, T + 2).finish();
    }

    private static Map<String, String> aged(String... more) {
        Map<String, String> config = Logs.config(more);
        config.put("internal.segment.bytes", "2000");
        config.put("segment.ms", "1000");
        return config;
    }

    private static void dataTime(Golden golden) throws IOException {
        new Recorder(golden, "roll-time-limit",
            "Data time against the first batch's largest time: at segment.ms still there, one more rolls", aged())
            .append(0, Inputs.one(T), Inputs.one(T + 1000), Inputs.one(T + 1001),
                Inputs.one(T + 2001), Inputs.one(T + 2002))
            .commit().timesAround(T, T + 1000, T + 1001, T + 2002).finish();
        new Recorder(golden, "roll-time-batch",
            "The largest time counts, of the segment's first batch and of the batch that comes", aged())
            .append(0, Inputs.at(T, T + 600), Inputs.at(T + 1600, T + 2), Inputs.at(T + 3, T + 1601),
                Inputs.at(T + 1602, T + 1603), Inputs.at(T + 2602))
            .commit().timesAround(T + 600, T + 1601, T + 2602).finish();
        new Recorder(golden, "roll-time-unordered",
            "Older data never rolls, a first batch from the future keeps the segment", aged())
            .append(0, Inputs.one(T + 5000), Inputs.one(T), Inputs.one(T + 5999), Inputs.one(T + 2000), Inputs.one(T + 6000),
                Inputs.one(T + 6001), Inputs.one(T), Inputs.one(T + 7001), Inputs.one(T + 7002))
            .commit().timesAround(T, T + 2000, T + 5000, T + 6001, T + 7002).finish();
        new Recorder(golden, "roll-time-clock-ignored",
            "With times in the data the clock does not matter", aged())
            .append(0, Inputs.one(T)).at(T + 100_000).append(0, Inputs.one(T + 1))
            .at(T + 200_000).append(0, Inputs.one(T + 1001))
            .commit().timesAround(T + 1, T + 1001).finish();
        new Recorder(golden, "roll-time-reopened",
            "After a restart the first batch's time is read from the file again", aged())
            .append(0, Inputs.one(T), Inputs.one(T + 400)).at(T + 50_000).reopen()
            .append(0, Inputs.one(T + 1000)).reopen().append(0, Inputs.one(T + 1001))
            .commit().timesAround(T, T + 400, T + 1000, T + 1001).finish();
    }

    private static void clock(Golden golden) throws IOException {
        new Recorder(golden, "roll-clock-untimed",
            "No times in the data: the clock since the segment was made; at segment.ms still there, one more rolls", aged())
            .append(0, Inputs.one(-1)).at(T + 1000).append(0, Inputs.one(-1)).at(T + 1001).append(0, Inputs.one(-1))
            .at(T + 2001).append(0, Inputs.one(-1)).at(T + 2002).append(0, Inputs.one(-1))
            .commit().timesAround(T).finish();
        new Recorder(golden, "roll-clock-first-untimed",
            "The first batch has no time, the next have: still the clock", aged())
            .append(0, Inputs.one(-1), Inputs.one(T + 50_000)).at(T + 1000).append(0, Inputs.one(T + 60_000))
            .at(T + 1001).append(0, Inputs.one(T + 60_001)).at(T + 9000).append(0, Inputs.one(T + 60_002), Inputs.one(-1))
            .commit().timesAround(T, T + 50_000, T + 60_000, T + 60_002).finish();
        new Recorder(golden, "roll-clock-empty",
            "An empty segment does not grow old, but it is as old as the process that opened it", aged())
            .at(T + 5000).append(0, Inputs.one(-1)).append(0, Inputs.one(-1)).at(T + 5500).reopen()
            .at(T + 6500).append(0, Inputs.one(-1)).at(T + 6501).append(0, Inputs.one(-1))
            .commit().finish();
        new Recorder(golden, "roll-clock-log-append-time",
            "Append times are the time of the data", aged("message.timestamp.type", "LogAppendTime"))
            .append(0, Inputs.one(T - 7)).at(T + 1000).append(0, Inputs.one(-1)).at(T + 1001).append(0, Inputs.one(T))
            .at(T + 500).append(0, Inputs.one(T)).at(T + 2002).append(0, Inputs.one(T))
            .commit().timesAround(T, T + 500, T + 1000, T + 1001, T + 2002).finish();
    }

    private static void compactionLag(Golden golden) throws IOException {
        for (String policy : new String[] {"compact", "compact,delete", "delete"})
            new Recorder(golden, "roll-compaction-lag-" + policy.replace(",", "-"),
                "max.compaction.lag.ms below segment.ms: counts where the policy has compact",
                aged("cleanup.policy", policy, "max.compaction.lag.ms", "500"))
                .append(0, Inputs.one(T), Inputs.one(T + 500), Inputs.one(T + 501), Inputs.one(T + 1001), Inputs.one(T + 1002))
                .commit().timesAround(T + 500).finish();
        new Recorder(golden, "roll-compaction-lag-longer",
            "max.compaction.lag.ms above segment.ms does not delay the roll",
            aged("cleanup.policy", "compact", "max.compaction.lag.ms", "5000"))
            .append(0, Inputs.one(T), Inputs.one(T + 1000), Inputs.one(T + 1001)).commit().finish();
    }

    private static void called(Golden golden) throws IOException {
        new Recorder(golden, "roll-called",
            "Rolled by call: with data, then twice while the new segment is empty", Logs.config())
            .roll().append(0, Inputs.one(T)).roll().roll().read(0, 100).read(1, 100).timesAround(T)
            .append(0, Inputs.one(T + 1)).commit().readAround(100).timesAround(T, T + 1).roll().finish();
        new Recorder(golden, "roll-called-reopened", "An empty active segment over a restart", Logs.config())
            .append(0, Inputs.one(T), Inputs.one(T + 1)).roll().reopen().append(0, Inputs.one(T + 2)).roll().reopen()
            .commit().readAround(100).timesAround(T + 2).finish();
    }
}
