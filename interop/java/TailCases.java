import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;

/** Crashes that spoil the end of the log, and batches that rotted in the middle of it. */
final class TailCases {
    private static final long T = Golden.T;
    /** Where the last batch of a segment begins: there are batches at 0, at 83 and here, and the end is 235. */
    static final int LAST = 159;

    private TailCases() {
    }

    static void write(Golden golden) throws Exception {
        Wreckage three = threeSegments();
        Wreckage two = twoSegments();
        flags(golden, three);
        torn(golden, three, two);
        tails(golden, two);
        rot(golden, three);
        headers(golden, two);
        three.clear();
        two.clear();
    }

    /** Segments at 0, 4 and 8, of 235 bytes each: offsets (0, 1), 2, 3 and so on; epochs 0, 1, 3; the end is 12. */
    static Wreckage threeSegments() throws Exception {
        return Wreckage.of(Scene.config("internal.segment.bytes", "300"), (log, time) -> fill(log, 9));
    }

    /** The first two of them: segments at 0 and 4, the end is 8. */
    static Wreckage twoSegments() throws Exception {
        return Wreckage.of(Scene.config("internal.segment.bytes", "300"), (log, time) -> fill(log, 6));
    }

    static void fill(UnifiedLog log, int batches) throws IOException {
        int[] epochs = {0, 0, 0, 0, 0, 1, 1, 1, 3};
        for (int i = 0; i < batches; i++)
            log.appendAsLeader(MemoryRecords.readableRecords(
                i % 3 == 0 ? Inputs.at(T + 10 * i, T + 10 * i + 5) : Inputs.one(T + 10 * i)), epochs[i]);
    }

    private static void flags(Golden golden, Wreckage three) throws IOException {
        three.stop(golden, "stopped-clean", "A clean stop, opened as such").load(true, 12, 0);
        three.stop(golden, "stopped-unclean", "A clean stop whose marker is gone").load(false, 12, 0);
        three.stop(golden, "stopped-unclean-0", "A clean stop, but neither marker nor recovery point").load(false, 0, 0);
        three.crash(golden, "crashed-clean", "A crash taken for a clean stop: preallocated indexes are believed")
            .load(true, 12, 0);
        for (int point : new int[] {0, 6, 8, 12, 20})
            three.crash(golden, "crashed-" + point, "A crash with this recovery point; 20 is beyond the end")
                .load(false, point, 0);
    }

    private static void torn(Golden golden, Wreckage three, Wreckage two) throws IOException {
        for (int bytes : new int[] {5, 17, 18, 60, 70, 75})
            two.crash(golden, "torn-" + bytes, "Of the last batch's 76 bytes only these reached the disk")
                .cut(4, ".log", LAST + bytes).load(false, 4, 0);
        for (int bytes : new int[] {5, 75})
            two.stop(golden, "torn-" + bytes + "-clean", "Taken for a clean stop: the bytes stay, and as the last index "
                    + "entry leads to the torn batch, no batch is found and the log ends at its last base")
                .cut(4, ".log", LAST + bytes).load(true, 8, 0);
        two.stop(golden, "torn-75-clean-entry-before", "Taken for a clean stop, the last index entry leads to a whole batch")
            .cut(4, ".log", LAST + 75).cut(4, ".index", 8).load(true, 8, 0);
        two.crash(golden, "torn-whole-batch", "The last batch is missing altogether, its index entry is there")
            .cut(4, ".log", LAST).load(false, 4, 0);
        two.stop(golden, "torn-whole-batch-clean", "The last batch is missing, its index entry is believed")
            .cut(4, ".log", LAST).load(true, 8, 0);
        two.crash(golden, "torn-all", "Nothing of the last segment reached the disk").cut(4, ".log", 0).load(false, 4, 0);
        three.crash(golden, "torn-middle-segment", "The middle segment lost its end: what is behind it goes")
            .cut(4, ".log", LAST + 70).load(false, 0, 0);
    }

    private static void tails(Golden golden, Wreckage two) throws IOException {
        for (int bytes : new int[] {17, 18, 30, 4096}) {
            two.crash(golden, "zeros-" + bytes, "Zeros behind the last batch")
                .add(4, ".log", new byte[bytes]).load(false, 4, 0);
            two.stop(golden, "zeros-" + bytes + "-clean", "Zeros behind the last batch, taken for a clean stop")
                .add(4, ".log", new byte[bytes]).load(true, 8, 0);
        }
        byte[] garbage = new byte[40];
        Arrays.fill(garbage, (byte) 0x5a);
        two.crash(golden, "garbage-tail", "Bytes behind the last batch that claim to be a long batch")
            .add(4, ".log", garbage).load(false, 4, 0);
        two.stop(golden, "garbage-tail-clean", "The same, taken for a clean stop").add(4, ".log", garbage).load(true, 8, 0);
    }

    private static void rot(Golden golden, Wreckage three) throws IOException {
        three.crash(golden, "crc-last", "A flipped bit in the last batch")
            .change(8, ".log", log -> flip(log, LAST + 65)).load(false, 8, 0);
        three.stop(golden, "crc-last-clean", "A flipped bit in the last batch, unnoticed after a clean stop")
            .change(8, ".log", log -> flip(log, LAST + 65)).load(true, 12, 0);
        three.crash(golden, "crc-middle-batch", "A flipped bit in a middle batch of the last segment")
            .change(8, ".log", log -> flip(log, 83 + 65)).load(false, 8, 0);
        three.crash(golden, "crc-first-batch", "A flipped bit in the first batch of the last segment: it is emptied")
            .change(8, ".log", log -> flip(log, 65)).load(false, 8, 0);
        three.crash(golden, "crc-first-batch-of-all", "A flipped bit in the very first batch: nothing is left")
            .change(0, ".log", log -> flip(log, 65)).load(false, 0, 0);
        three.crash(golden, "crc-middle-segment", "A flipped bit in the middle segment: what is behind it goes")
            .change(4, ".log", log -> flip(log, 83 + 65)).load(false, 0, 0);
        three.crash(golden, "crc-middle-segment-flushed", "The same below the recovery point: unnoticed")
            .change(4, ".log", log -> flip(log, 83 + 65)).load(false, 8, 0);
        three.crash(golden, "crc-middle-segment-emptied", "The first batch of the middle segment rotted")
            .change(4, ".log", log -> flip(log, 65)).load(false, 5, 0);
    }

    private static void headers(Golden golden, Wreckage two) throws IOException {
        for (int size : new int[] {-1, 0, 13, 48, 63, 65, Integer.MAX_VALUE})
            two.crash(golden, "size-" + (size == Integer.MAX_VALUE ? "huge" : size == -1 ? "negative" : size),
                    "The middle batch of the last segment claims this size (truly 64)")
                .change(4, ".log", log -> log.putInt(83 + Inputs.LENGTH, size)).load(false, 4, 0);
        for (int magic : new int[] {0, 1, 9})
            two.crash(golden, "magic-" + magic,
                    "The middle batch of the last segment claims this magic; its checksum does not cover that")
                .change(4, ".log", log -> log.put(83 + Inputs.MAGIC, (byte) magic)).load(false, 4, 0);
    }

    static void flip(ByteBuffer bytes, int position) {
        bytes.put(position, (byte) (bytes.get(position) ^ 1));
    }
}
