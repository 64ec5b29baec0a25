import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.Optional;

/** What a crash leaves while cleaned segments replace old ones, step by step. */
final class LeftoverCases {
    private static final long T = Golden.T;
    private static final String[] FILES = {".log", ".index", ".timeindex"};

    private LeftoverCases() {
    }

    static void write(Golden golden) throws Exception {
        Map<String, String> config = Scene.config("cleanup.policy", "compact", "internal.segment.bytes", "1000");
        // Segments at 0, 2 and 4 become one at 0 (batches (2, 3) and (4, 5)); the active one is at 6.
        Wreckage old = Wreckage.of(config, (log, time) -> fill(log));
        Wreckage cleaned = Wreckage.of(config, (log, time) -> {
            fill(log);
            Logs.clean(log, time, Optional.empty(), T + 100);
        });
        steps(golden, old, cleaned);
        oddities(golden, old, cleaned);
        cleaned.clear();
        Wreckage pairs = Wreckage.of(Scene.config("cleanup.policy", "compact", "internal.segment.bytes", "170"), (log, time) -> {
            fill(log);
            Logs.clean(log, time, Optional.empty(), T + 100);
        });
        pairs(golden, old, pairs);
        pairs.clear();
        old.clear();
    }

    private static void fill(UnifiedLog log) throws IOException {
        String[][] keys = {{"a", "b"}, {"a", "c"}, {"b", "d"}, {"x", "y"}};
        for (int i = 0; i < keys.length; i++) {
            if (i > 0)
                log.roll();
            log.appendAsLeader(MemoryRecords.readableRecords(Samples.batch().of(
                Samples.record(T + 10 * i, keys[i][0], "1"), Samples.record(T + 10 * i + 1, keys[i][1], "2"))), 0);
        }
    }

    private static Scene bring(Scene scene, Wreckage from, long base, String suffix) throws IOException {
        for (String file : FILES)
            scene.bring(from.crashed(), base, file, file + suffix);
        return scene;
    }

    private static Scene retire(Scene scene, long base, int files) throws IOException {
        for (int i = 0; i < files; i++)
            scene.rename(base, FILES[i], FILES[i] + ".deleted");
        return scene;
    }

    private static void steps(Golden golden, Wreckage old, Wreckage cleaned) throws IOException {
        bring(old.crash(golden, "swap-a-cleaned", "The cleaned segment is written, nothing renamed"), cleaned, 0, ".cleaned")
            .load(false, 6, 0);
        old.crash(golden, "swap-a-writing", "The cleaned log is half written, its indexes are preallocated")
            .bring(cleaned.crashed(), 0, ".log", ".log.cleaned").cut(0, ".log.cleaned", 100)
            .put(0, ".index.cleaned", new byte[96]).put(0, ".timeindex.cleaned", new byte[96]).load(false, 6, 0);
        bring(old.crash(golden, "swap-b-log-renamed", "The cleaned log became a swap file, its indexes did not"), cleaned, 0, ".cleaned")
            .rename(0, ".log.cleaned", ".log.swap").load(false, 6, 0);
        bring(old.crash(golden, "swap-b-index-renamed", "Only the time index is still called cleaned"), cleaned, 0, ".swap")
            .rename(0, ".timeindex.swap", ".timeindex.cleaned").load(false, 6, 0);
        bring(old.crash(golden, "swap-c-all", "All three are swap files, all old segments are there"), cleaned, 0, ".swap")
            .load(false, 6, 0);
        bring(old.stop(golden, "swap-c-all-clean", "The same, taken for a clean stop"), cleaned, 0, ".swap").load(true, 8, 0);
        bring(old.crash(golden, "swap-c-all-recovered", "The same, with recovery from the start"), cleaned, 0, ".swap")
            .load(false, 0, 0);
        retire(bring(old.crash(golden, "swap-d-one-file", "The first old log is renamed to be deleted"), cleaned, 0, ".swap"), 0, 1)
            .load(false, 6, 0);
        retire(retire(bring(old.crash(golden, "swap-d-some", "Two old segments are renamed to be deleted"), cleaned, 0, ".swap"),
            0, 3), 2, 3).rename(2, ".snapshot", ".snapshot.deleted").load(false, 6, 0);
        retire(retire(retire(bring(old.crash(golden, "swap-d-all", "All old segments are renamed to be deleted"), cleaned, 0, ".swap"),
            0, 3), 2, 3), 4, 3).load(false, 6, 0);
        Scene log = replaced(bring(old.crash(golden, "swap-e-log", "The log has its final name, the indexes have not"), cleaned, 0, ".swap"));
        log.rename(0, ".log.swap", ".log").load(false, 6, 0);
        Scene index = replaced(bring(old.crash(golden, "swap-e-index", "Only the time index is still a swap file"), cleaned, 0, ".swap"));
        index.rename(0, ".log.swap", ".log").rename(0, ".index.swap", ".index").load(false, 6, 0);
        new Scene(golden, "swap-f-done", "All is renamed, the old files wait for their deletion", cleaned.config(), cleaned.crashed())
            .load(false, 6, 0);
    }

    private static Scene replaced(Scene scene) throws IOException {
        return retire(retire(retire(scene, 0, 3), 2, 3), 4, 3);
    }

    private static void oddities(Golden golden, Wreckage old, Wreckage cleaned) throws IOException {
        old.crash(golden, "swap-lone-index", "A lone index swap file replaces the index, whatever it holds")
            .put(0, ".index.swap", new byte[] {0, 0, 0, 1, 0, 0, 0, 0}).load(false, 6, 0);
        old.crash(golden, "swap-lone-txnindex", "A lone transaction index swap file")
            .put(0, ".txnindex.swap", ByteBuffer.allocate(34).putShort((short) 0).putLong(9).putLong(0).putLong(1).putLong(2).array())
            .load(false, 6, 0);
        old.crash(golden, "swap-no-index", "A log swap file without index swap files")
            .bring(cleaned.crashed(), 0, ".log", ".log.swap").load(false, 6, 0);
        old.crash(golden, "swap-no-timeindex", "A log swap file without a time index")
            .bring(cleaned.crashed(), 0, ".log", ".log.swap").bring(cleaned.crashed(), 0, ".index", ".index.swap")
            .load(false, 6, 0);
        old.crash(golden, "swap-empty-log", "A log swap file without a batch: only files of its own base give way")
            .put(0, ".log.swap", new byte[0]).put(0, ".index.swap", new byte[0]).put(0, ".timeindex.swap", new byte[0])
            .load(false, 6, 0);
        bring(old.crash(golden, "swap-short", "The swap segment ends below the last old base: that one stays"), cleaned, 0, ".swap")
            .cut(0, ".log.swap", 79).cut(0, ".index.swap", 0).load(false, 6, 0);
        bring(old.crash(golden, "swap-higher-than-cleaned", "A swap segment above a cleaned one: it goes"), cleaned, 0, ".cleaned")
            .bring(old.crashed(), 4, ".log", ".log.swap").load(false, 6, 0);
        old.crash(golden, "swap-lower-than-cleaned", "A swap segment below a cleaned one: it counts")
            .bring(cleaned.crashed(), 0, ".log", ".log.swap").bring(cleaned.crashed(), 0, ".index", ".index.swap")
            .bring(cleaned.crashed(), 0, ".timeindex", ".timeindex.swap").bring(old.crashed(), 4, ".log", ".log.cleaned")
            .load(false, 6, 0);
        old.crash(golden, "deleted-files", "Files to be deleted next to live ones, a snapshot and a checkpoint among them")
            .put(0, ".log.deleted", new byte[9]).put(2, ".index.deleted", new byte[8]).put(40, ".log.deleted", new byte[3])
            .put(4, ".snapshot.deleted", new byte[10]).put("00000000000000000003.checkpoint.deleted", "").load(false, 6, 0);
    }

    private static void pairs(Golden golden, Wreckage old, Wreckage pairs) throws IOException {
        // As a split does it: both new segments are cleaned files first, and the higher one is renamed first.
        bring(bring(old.crash(golden, "swap-two-cleaned", "Two cleaned segments, nothing renamed"), pairs, 0, ".cleaned"),
            pairs, 4, ".cleaned").load(false, 6, 0);
        bring(bring(old.crash(golden, "swap-two-mixed", "The higher one is a swap segment already"), pairs, 0, ".cleaned"),
            pairs, 4, ".swap").load(false, 6, 0);
        bring(bring(old.crash(golden, "swap-two-all", "Both are swap segments"), pairs, 0, ".swap"), pairs, 4, ".swap")
            .load(false, 6, 0);
        bring(replaced(old.crash(golden, "swap-two-second", "The first has its final name, the second is a swap segment")),
            pairs, 4, ".swap").bring(pairs.crashed(), 0, ".log", ".log").bring(pairs.crashed(), 0, ".index", ".index")
            .bring(pairs.crashed(), 0, ".timeindex", ".timeindex").load(false, 6, 0);
    }
}
