import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.RecordVersion;

import java.io.IOException;
import java.nio.ByteBuffer;

/** Folders with files too many or too few, wrong checkpoints, and segments with offsets they must not hold. */
final class FolderCases {
    private static final long T = Golden.T;

    private FolderCases() {
    }

    static void write(Golden golden) throws Exception {
        Wreckage three = TailCases.threeSegments();
        Wreckage two = TailCases.twoSegments();
        files(golden, three, two);
        epochs(golden, two);
        starts(golden, three);
        three.clear();
        two.clear();
        overflow(golden);
        legacy(golden);
    }

    private static void files(Golden golden, Wreckage three, Wreckage two) throws IOException {
        byte[] entry = new byte[12];
        for (boolean clean : new boolean[] {true, false}) {
            String suffix = clean ? "-clean" : "";
            from(two, clean, golden, "orphans" + suffix, "Indexes without a log")
                .put(6, ".index", entry).put(6, ".timeindex", entry).put(7, ".txnindex", entry).put(20, ".index", entry)
                .load(clean, clean ? 8 : 4, 0);
            from(two, clean, golden, "empty-last-segment" + suffix, "Stopped right after a roll: a log of no bytes, no indexes")
                .put(8, ".log", new byte[0]).load(clean, 8, 0);
            from(three, clean, golden, "middle-log-missing" + suffix, "A log is gone from the middle, its indexes are there")
                .delete(4, ".log").load(clean, clean ? 12 : 0, 0);
            from(three, clean, golden, "first-segment-missing" + suffix, "The first segment is gone, the checkpoint says 0")
                .delete(0, ".log", ".index", ".timeindex").load(clean, clean ? 12 : 0, 0);
            from(two, clean, golden, "all-logs-missing" + suffix, "Only indexes, snapshots and epochs are left")
                .delete(0, ".log").delete(4, ".log").load(clean, clean ? 8 : 0, 0);
        }
        two.crash(golden, "empty-last-segment-4", "Right after a roll, the recovery point before it")
            .put(8, ".log", new byte[0]).load(false, 4, 0);
        two.crash(golden, "empty-last-segment-gap", "An empty segment above the end of the one before")
            .put(20, ".log", new byte[0]).load(false, 4, 0);
        two.crash(golden, "empty-last-segment-torn", "An empty last segment behind a torn batch: it goes")
            .put(8, ".log", new byte[0]).cut(4, ".log", TailCases.LAST + 70).load(false, 4, 0);
        two.stop(golden, "foreign-files", "Files that are none of Kafka's, half-written checkpoints, a topic id")
            .put("notes.txt", "hello\n").put("leader-epoch-checkpoint.tmp", "0\n9\n").put("partition.metadata.tmp", "vers")
            .put("partition.metadata", "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ").load(true, 8, 0);
        two.stop(golden, "foreign-log-name", "A log whose name is no number").put("notes.log", "").load(true, 8, 0);
        two.stop(golden, "short-log-name", "A log whose name has too few digits").put("8.log", "").load(true, 8, 0);
    }

    private static Scene from(Wreckage wreckage, boolean clean, Golden golden, String name, String about) throws IOException {
        return clean ? wreckage.stop(golden, name, about) : wreckage.crash(golden, name, about);
    }

    private static void epochs(Golden golden, Wreckage two) throws IOException {
        String file = "leader-epoch-checkpoint";
        two.stop(golden, "epochs-missing-clean", "No epochs after a clean stop").delete(file).load(true, 8, 0);
        two.crash(golden, "epochs-missing", "No epochs after a crash: recovery finds those of the batches it reads")
            .delete(file).load(false, 4, 0);
        two.crash(golden, "epochs-missing-0", "No epochs after a crash, everything is read").delete(file).load(false, 0, 0);
        two.stop(golden, "epochs-emptied-clean", "An empty file of epochs").put(file, "").load(true, 8, 0);
        two.stop(golden, "epochs-beyond-end-clean", "Epochs that begin at the end and beyond")
            .put(file, "0\n4\n0 0\n1 7\n2 8\n5 100\n").load(true, 8, 0);
        two.crash(golden, "epochs-beyond-end", "Epochs that begin at the end and beyond")
            .put(file, "0\n4\n0 0\n1 7\n2 8\n5 100\n").load(false, 4, 0);
        two.crash(golden, "epochs-ahead", "The file knows a higher epoch than the batches behind it")
            .put(file, "0\n2\n0 0\n4 5\n").load(false, 0, 0);
        two.stop(golden, "epochs-garbage", "A file of epochs that cannot be read").put(file, "0\n2\n0 0\n").load(true, 8, 0);
        two.stop(golden, "epochs-other-version", "A file of epochs of a later version").put(file, "1\n1\n0 0\n").load(true, 8, 0);
        two.stop(golden, "epochs-wide-space", "Numbers separated by more than a space, no line end at the end")
            .put(file, "0\n2\n0   0\n1\t7").load(true, 8, 0);
        two.stop(golden, "epochs-line-too-many", "An empty line behind the entries").put(file, "0\n2\n0 0\n1 7\n\n").load(true, 8, 0);
    }

    private static void starts(Golden golden, Wreckage three) throws IOException {
        for (long start : new long[] {4, 6, 11, 12, 13, 20})
            three.stop(golden, "log-start-" + start + "-clean", "The checkpointed log start; segments stay until retention")
                .load(true, 12, start);
        three.crash(golden, "log-start-6", "A log start above the recovery point").load(false, 0, 6);
        three.crash(golden, "log-start-20", "A log start beyond the end after a crash: everything goes").load(false, 0, 20);
        three.crash(golden, "log-start-9-torn", "Recovery cuts the log below its checkpointed start: everything goes")
            .change(8, ".log", log -> TailCases.flip(log, 65)).load(false, 4, 9);
    }

    private static ByteBuffer at(long offset) {
        return Samples.batch().base(offset).of(Inputs.records(T));
    }

    private static void overflow(Golden golden) throws Exception {
        long far = 1L << 31;
        Wreckage empty = Wreckage.of(Scene.config("internal.segment.bytes", "2000"), (log, time) ->
            log.appendAsFollower(MemoryRecords.readableRecords(at(0)), 0));
        byte[] two = Samples.bytes(Samples.concat(at(1), at(far - 1), at(far), at(far + 5)));
        byte[] three = Samples.bytes(Samples.concat(at(1), at(far + 5), at(2 * far + 4), at(3 * far), at(9 * far)));
        empty.crash(golden, "overflow", "Offsets beyond 2147483647 above the base: the segment is split")
            .add(0, ".log", two).load(false, 0, 0);
        empty.stop(golden, "overflow-clean", "The same after a clean stop: nobody looks").add(0, ".log", two).load(true, far + 6, 0);
        empty.stop(golden, "overflow-no-index-clean", "A clean stop, but the missing index leads to recovery and split")
            .add(0, ".log", two).delete(0, ".index").load(true, far + 6, 0);
        empty.crash(golden, "overflow-often", "Offsets so far apart that every batch gets a segment")
            .add(0, ".log", three).load(false, 0, 0);
        empty.clear();
        Wreckage segments = TailCases.twoSegments();
        segments.crash(golden, "below-base", "A batch below the base of its segment: Kafka does not load this")
            .add(4, ".log", Samples.bytes(at(1))).load(false, 4, 0);
        segments.stop(golden, "below-base-clean", "The same after a clean stop").add(4, ".log", Samples.bytes(at(1))).load(true, 8, 0);
        segments.crash(golden, "offsets-fall", "A batch below the one before it, but not below the base")
            .add(4, ".log", Samples.bytes(at(5))).load(false, 4, 0);
        segments.clear();
    }

    private static void legacy(Golden golden) throws Exception {
        Wreckage old = Wreckage.of(Scene.config("internal.segment.bytes", "400"), (log, time) -> {
            for (int i = 0; i < 3; i++)
                log.appendAsLeaderWithRecordVersion(MemoryRecords.readableRecords(Samples.batch().magic(0)
                    .codec(i == 1 ? CompressionType.GZIP : CompressionType.NONE)
                    .of(Samples.untimed("a" + i, "v0"), Samples.untimed("b" + i, "v0"))), 0, RecordVersion.V0);
            log.roll();
            for (int i = 0; i < 3; i++)
                log.appendAsLeaderWithRecordVersion(MemoryRecords.readableRecords(Samples.batch().magic(1)
                    .codec(i == 1 ? CompressionType.LZ4 : CompressionType.NONE)
                    .of(Inputs.records(T + 10 * i + 5, T + 10 * i))), 0, RecordVersion.V1);
        });
        old.stop(golden, "legacy-index-missing-clean", "v0 and v1 without indexes: rebuilt from the logs")
            .delete(0, ".index", ".timeindex").delete(6, ".index", ".timeindex").load(true, 12, 0);
        old.crash(golden, "legacy-crashed", "v0 and v1 after a crash").load(false, 0, 0);
        old.crash(golden, "legacy-rotten", "A v1 message with a flipped bit")
            .change(6, ".log", log -> TailCases.flip(log, 30)).load(false, 0, 0);
        old.clear();
    }
}
