import java.io.IOException;
import java.util.Arrays;

/** Indexes that are missing or wrong: rebuilt by recovery, believed after a clean stop. */
final class IndexDamageCases {
    private IndexDamageCases() {
    }

    static void write(Golden golden) throws Exception {
        // Segments at 0 and 4, the end is 8.
        Wreckage two = TailCases.twoSegments();
        missing(golden, two);
        wrong(golden, two);
        two.clear();
    }

    private static void missing(Golden golden, Wreckage two) throws IOException {
        String[][] choices = {{"index", ".index"}, {"timeindex", ".timeindex"}, {"indexes", ".index", ".timeindex"}};
        for (String[] choice : choices) {
            String[] suffixes = Arrays.copyOfRange(choice, 1, choice.length);
            two.stop(golden, choice[0] + "-missing-clean", "Gone from the last segment after a clean stop")
                .delete(4, suffixes).load(true, 8, 0);
            two.stop(golden, choice[0] + "-missing-first-clean", "Gone from the first segment after a clean stop")
                .delete(0, suffixes).load(true, 8, 0);
            two.crash(golden, choice[0] + "-missing", "Gone from the last segment after a crash")
                .delete(4, suffixes).load(false, 4, 0);
            two.crash(golden, choice[0] + "-missing-first", "Gone from the first segment, below the recovery point")
                .delete(0, suffixes).load(false, 4, 0);
        }
        two.stop(golden, "index-missing-torn-clean", "A clean stop, but no index and a torn batch: recovery cuts it off")
            .delete(4, ".index").cut(4, ".log", TailCases.LAST + 70).load(true, 8, 0);
        two.stop(golden, "index-missing-torn-first-clean", "The same in the first segment: later segments stay")
            .delete(0, ".index").cut(0, ".log", TailCases.LAST + 70).load(true, 8, 0);
    }

    private static void wrong(Golden golden, Wreckage two) throws IOException {
        byte[] garbage = new byte[24];
        Arrays.fill(garbage, (byte) 0x5a);
        byte[] negative = new byte[24];
        Arrays.fill(negative, (byte) 0xa5);
        for (boolean clean : new boolean[] {true, false}) {
            String suffix = clean ? "-clean" : "";
            long point = clean ? 8 : 4;
            from(golden, two, clean, "index-garbage" + suffix, "Entries that make no sense")
                .put(4, ".index", garbage).load(clean, point, 0);
            from(golden, two, clean, "timeindex-garbage" + suffix, "Entries that make no sense")
                .put(4, ".timeindex", garbage).load(clean, point, 0);
            from(golden, two, clean, "index-odd-size" + suffix, "Thirteen bytes, one entry and a half")
                .cut(4, ".index", 13).load(clean, point, 0);
        }
        two.stop(golden, "index-negative-clean", "Entries of negative numbers").put(4, ".index", negative).load(true, 8, 0);
        two.stop(golden, "index-short-clean", "One entry is missing at the end").cut(4, ".index", 8).load(true, 8, 0);
        two.stop(golden, "index-emptied-clean", "No byte in it").cut(4, ".index", 0).load(true, 8, 0);
        two.stop(golden, "timeindex-short-clean", "One entry is missing at the end").cut(4, ".timeindex", 12).load(true, 8, 0);
        two.stop(golden, "timeindex-emptied-clean", "No byte in it").cut(4, ".timeindex", 0).load(true, 8, 0);
        two.stop(golden, "timeindex-odd-size-clean", "One entry and a half").cut(4, ".timeindex", 18).load(true, 8, 0);
        two.stop(golden, "indexes-zero-extended-first-clean", "Zeros behind the entries of a segment that is not the last")
            .add(0, ".index", new byte[24]).add(0, ".timeindex", new byte[36]).load(true, 8, 0);
        two.crash(golden, "indexes-garbage-first", "The first segment's indexes are wrong, the recovery point is in it")
            .put(0, ".index", garbage).put(0, ".timeindex", garbage).load(false, 2, 0);
    }

    private static Scene from(Golden golden, Wreckage two, boolean clean, String name, String about) throws IOException {
        return clean ? two.stop(golden, name, about + ", believed after a clean stop")
            : two.crash(golden, name, about + ", rebuilt after a crash");
    }
}
