import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.RecordVersion;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.Optional;

/** Logs with a past: legacy formats, rounds of the cleaner, producers and their transactions. */
final class OldLogCases {
    private static final long T = Golden.T;

    private OldLogCases() {
    }

    static void write(Golden golden) throws Exception {
        legacy(golden);
        compacted(golden);
        damaged(golden);
        producers(golden);
        transactions(golden);
    }

    private static void legacy(Golden golden) throws Exception {
        Map<String, String> config = Logs.config("internal.segment.bytes", "400");
        Recorder log = new Recorder(golden, "legacy", "Segments of v0, of v1 and of v2, written as their time did", config);
        for (int i = 0; i < 4; i++)
            log.appendLegacy(RecordVersion.V0, Samples.batch().magic(0)
                .codec(i % 2 == 0 ? CompressionType.NONE : CompressionType.GZIP)
                .of(Samples.untimed("a" + i, "v0"), Samples.untimed("b" + i, "v0")));
        log.roll();
        for (int i = 0; i < 4; i++)
            log.appendLegacy(RecordVersion.V1, Samples.batch().magic(1)
                .codec(i % 2 == 0 ? CompressionType.NONE : CompressionType.LZ4)
                .of(Samples.record(T + 10 * i + 5, "a" + i, "v1"), Samples.record(T + 10 * i, "b" + i, "v1")));
        log.append(0, Inputs.at(T + 50, T + 60)).roll().append(0, Inputs.at(T + 70));
        log.commit().read(1, 1).read(3, 150).read(9, 1).read(11, 150).read(17, 1).timesAround(T + 5, T + 35)
            .offsetForEpoch(-1, 0).finish();
        // The same files, for an engine that reads the old formats but does not write them.
        new Recorder(golden, "legacy-from-disk", "The files of the case legacy, opened, read, cut and appended to", config,
            golden.folder("partitions/legacy/closed"))
            .commit().readAround(150).timesAround(T + 5, T + 10, T + 35, T + 60).append(1, Inputs.one(T + 80))
            .truncateTo(13).read(12, 1).read(13, 1).timesAround(T + 20, T + 25).truncateTo(5).readAround(100).finish();
        Recorder v1 = new Recorder(golden, "legacy-v1", "A log of v1 messages alone: times answer from it", config);
        for (int i = 0; i < 5; i++)
            v1.appendLegacy(RecordVersion.V1, Samples.batch().magic(1).codec(i == 3 ? CompressionType.GZIP : CompressionType.NONE)
                .of(Samples.record(T + 10 * i + 5, "a" + i, "v1"), Samples.record(T + 10 * i, "b" + i, "v1")));
        v1.commit().readAround(150).timesAround(T + 5, T + 10, T + 25, T + 35, T + 45).finish();
    }

    private static void compacted(Golden golden) throws Exception {
        Map<String, String> config = Logs.config("cleanup.policy", "compact", "internal.segment.bytes", "400");
        Wreckage cleaned = Wreckage.of(config, (log, time) -> {
            for (int i = 0; i < 16; i++)
                append(log, Samples.batch().of(Samples.record(T + i, "k" + i % 2, "v" + i), Samples.record(T + i, "only" + i / 4, "x")));
            append(log, Samples.batch().of(Samples.record(T + 20, "last", "1")));
            log.roll();
            append(log, Samples.batch().of(Samples.record(T + 21, "active", "1")));
            Logs.clean(log, time, Optional.empty(), T + 100);
        });
        new Recorder(golden, "compacted", "A log after a round of the cleaner: offsets are missing between and inside batches",
            config, cleaned.stopped())
            .commit().readAround(150).timesAround(T, T + 3, T + 7, T + 14, T + 15, T + 20, T + 21)
            .truncateTo(30).read(29, 1).read(30, 1).append(0, Inputs.one(T + 30)).commit().read(29, 100).read(30, 100).finish();
        cleaned.clear();

        Wreckage emptied = Wreckage.of(config, (log, time) -> {
            append(log, Samples.batch().of(Samples.record(T, "a", "1")));
            append(log, Samples.batch().of(Samples.record(T + 1, "a", "2")));
            log.roll();
            append(log, Samples.batch().of(Samples.record(T + 2, "b", "x".repeat(320))));
            log.roll();
            append(log, Samples.batch().of(Samples.record(T + 3, "a", "3"), Samples.record(T + 3, "b", "4")));
            log.roll();
            append(log, Samples.batch().of(Samples.record(T + 4, "active", "1")));
            Logs.clean(log, time, Optional.empty(), T + 100);
        });
        new Recorder(golden, "compacted-empty-segment", "A round left a first segment without records: its file time answers "
            + "time look-ups, and hides what follows", config, emptied.stopped())
            .commit().readAround(150).timesAround(T, T + 3, T + 4).finish();
        emptied.clear();
    }

    private static void damaged(Golden golden) throws Exception {
        // Segments at 0 and 4, the end is 8.
        Wreckage two = TailCases.twoSegments();
        new Recorder(golden, "opened-after-crash", "A crash taken for a clean stop: the preallocated indexes count as full",
            two.config(), two.crashed())
            .commit().readAround(150).timesAround(T, T + 35, T + 50).append(2, Inputs.one(T + 60), Inputs.one(T + 61)).commit()
            .readAround(150).timesAround(T, T + 50, T + 60).reopen().finish();
        Path log = two.stopped().resolve("00000000000000000004.log");
        Files.write(log, Arrays.copyOf(Files.readAllBytes(log), TailCases.LAST + 70));
        new Recorder(golden, "opened-torn", "A torn last batch taken for a clean stop: the log ends at its last base, "
            + "and what is appended lies behind the torn bytes",
            Logs.config("internal.segment.bytes", "600", "segment.index.bytes", "96"), two.stopped())
            .read(3, 1).read(4, 1).read(5, 1).append(2, Inputs.one(T + 60), Inputs.one(T + 61)).commit()
            .readAround(150).timesAround(T, T + 60).finish();
        new Recorder(golden, "opened-torn-full", "The same without space left: there is no base to roll to, every append fails",
            two.config(), two.stopped()).append(2, Inputs.one(T + 60), Inputs.one(T + 61)).finish();
        two.clear();
    }

    private static void append(UnifiedLog log, ByteBuffer batch) throws Exception {
        log.appendAsLeader(MemoryRecords.readableRecords(batch), 0);
    }

    private static void producers(Golden golden) throws Exception {
        Recorder log = new Recorder(golden, "producers", "Sequences and epochs of idempotent producers: duplicates, gaps, old epochs",
            Logs.config());
        log.append(0, producer(9, 0, 0), producer(9, 0, 3), producer(9, 0, 0), producer(9, 0, 3), producer(9, 0, 7),
            producer(9, 0, 4), producer(9, 0, 6), producer(9, 1, 1), producer(9, 1, 0), producer(9, 0, 9), producer(9, 1, 3),
            producer(12, 0, 100), producer(12, 0, 103), producer(13, 4, Integer.MAX_VALUE - 1), producer(13, 4, 1),
            producer(13, 4, 4));
        for (int i = 2; i < 7; i++)
            log.append(0, producer(9, 1, 3 * i));
        log.append(0, producer(9, 1, 0), producer(9, 1, 6)).reopen()
            .append(0, producer(9, 1, 15), producer(9, 1, 18), producer(9, 1, 18), producer(9, 1, 21), producer(12, 0, 103))
            .commit().finish();
        new Recorder(golden, "producers-duplicate-rolls", "A duplicate writes nothing, but the roll it caused stays",
            Logs.config("internal.segment.bytes", "200"))
            .append(0, producer(9, 0, 0), producer(9, 0, 3), producer(9, 0, 3), producer(9, 0, 6)).commit().finish();
    }

    private static ByteBuffer producer(long id, int epoch, int sequence) {
        return Samples.batch().producer(id, epoch, sequence).of(FieldCases.three());
    }

    private static void transactions(Golden golden) throws Exception {
        Recorder log = new Recorder(golden, "transactions", "Transactions that overlap, commit, abort and stay open",
            Logs.config("internal.segment.bytes", "450"));
        data(log, 9, 0, 0);
        data(log, 10, 0, 0);
        end(log, ControlRecordType.ABORT, 9, 0);
        data(log, 9, 0, 3);
        end(log, ControlRecordType.COMMIT, 10, 0);
        log.append(0, Inputs.one(T + 20));
        end(log, ControlRecordType.ABORT, 9, 0);
        end(log, ControlRecordType.ABORT, 10, 0);
        data(log, 11, 2, 5);
        log.append(0, Samples.batch().producer(11, 2, 8).of(FieldCases.three()));
        data(log, 10, 0, 3);
        end(log, ControlRecordType.ABORT, 10, 1);
        for (long mark : new long[] {8, log.log().logEndOffset()}) {
            log.highWatermark(mark);
            for (long offset = 0; offset <= log.log().logEndOffset(); offset += 3)
                log.read(offset, 180, FetchIsolation.TXN_COMMITTED, true);
        }
        end(log, ControlRecordType.ABORT, 11, 2);
        log.commit();
        for (long offset = 0; offset <= log.log().logEndOffset(); offset += 2)
            log.read(offset, 180, FetchIsolation.TXN_COMMITTED, true);
        log.timesAround(T, T + 20).truncateTo(12).commit();
        for (long offset = 0; offset <= log.log().logEndOffset(); offset += 2)
            log.read(offset, 500, FetchIsolation.TXN_COMMITTED, true);
        log.reopen().finish();
    }

    private static void data(Recorder log, long producerId, int epoch, int sequence) {
        log.append(0, Samples.batch().producer(producerId, epoch, sequence).transactional().of(FieldCases.three()));
    }

    private static void end(Recorder log, ControlRecordType type, long producerId, int epoch) {
        log.append(0, AppendOrigin.COORDINATOR, ControlCases.marker(0, type, producerId, epoch, 0));
    }
}
