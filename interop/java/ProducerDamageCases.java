import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;

import java.io.IOException;
import java.nio.file.Files;

/** Transaction indexes and producer snapshots that are missing, wrong or stray. */
final class ProducerDamageCases {
    // The bases and the end of the log below; each base and the end of a stopped log have a snapshot.
    private static final long MIDDLE = 11;
    private static final long LAST = 22;
    private static final long END = 23;

    private ProducerDamageCases() {
    }

    static void write(Golden golden) throws Exception {
        // Every segment has an aborted transaction, producer 11's is open.
        Wreckage open = Wreckage.of(Scene.config("internal.segment.bytes", "450"), (log, time) -> {
            data(log, 9, 0);
            data(log, 10, 0);
            end(log, ControlRecordType.ABORT, 9);
            data(log, 9, 3);
            end(log, ControlRecordType.COMMIT, 10);
            log.appendAsLeader(MemoryRecords.readableRecords(Inputs.one(Golden.T + 20)), 0);
            end(log, ControlRecordType.ABORT, 9);
            log.appendAsLeader(MemoryRecords.readableRecords(
                Samples.batch().producer(12, 1, 40).of(FieldCases.three())), 0);
            data(log, 10, 3);
            data(log, 11, 5);
            end(log, ControlRecordType.ABORT, 10);
        });
        transactionIndexes(golden, open);
        snapshots(golden, open);
        open.clear();
    }

    private static void data(UnifiedLog log, long producerId, int sequence) throws IOException {
        log.appendAsLeader(MemoryRecords.readableRecords(
            Samples.batch().producer(producerId, 0, sequence).transactional().of(FieldCases.three())), 0);
    }

    private static void end(UnifiedLog log, ControlRecordType type, long producerId) {
        short transactionVersion = 0;
        log.appendAsLeader(MemoryRecords.readableRecords(ControlCases.marker(0, type, producerId, 0, 0)), 0,
            AppendOrigin.COORDINATOR, RequestLocal.noCaching(), VerificationGuard.SENTINEL, transactionVersion);
    }

    private static void transactionIndexes(Golden golden, Wreckage open) throws IOException {
        open.stop(golden, "txn-clean", "Transactions after a clean stop").load(true, END, 0);
        open.crash(golden, "txn-crashed", "Transactions after a crash, everything is read").load(false, 0, 0);
        open.crash(golden, "txn-crashed-last", "Transactions after a crash, the last segment is read").load(false, LAST, 0);
        open.stop(golden, "txnindex-missing-clean", "A transaction index is gone, nobody notices").delete(LAST, ".txnindex")
            .load(true, END, 0);
        open.crash(golden, "txnindex-missing", "A transaction index is gone, recovery writes it again").delete(LAST, ".txnindex")
            .load(false, LAST, 0);
        open.stop(golden, "txnindex-below-base-clean", "An entry that ends below the base: the segment is recovered")
            .change(LAST, ".txnindex", entry -> entry.putLong(18, 1)).load(true, END, 0);
        open.stop(golden, "txnindex-torn-clean", "Half an entry").cut(LAST, ".txnindex", 20).load(true, END, 0);
        open.stop(golden, "txnindex-extra-half-clean", "An entry and a half").add(LAST, ".txnindex", new byte[10]).load(true, END, 0);
        open.stop(golden, "txnindex-emptied-clean", "No byte in it").cut(LAST, ".txnindex", 0).load(true, END, 0);
        open.stop(golden, "txnindex-newer-clean", "An entry of a later version")
            .change(LAST, ".txnindex", entry -> entry.putShort(0, (short) 7)).load(true, END, 0);
        open.crash(golden, "txn-rotten-marker", "The last marker has a flipped bit: its transaction is open again")
            .change(LAST, ".log", log -> TailCases.flip(log, log.limit() - 3)).load(false, LAST, 0);
    }

    private static void snapshots(Golden golden, Wreckage open) throws IOException {
        byte[] newest = Files.readAllBytes(open.stopped().resolve(String.format("%020d.snapshot", END)));
        open.stop(golden, "snapshots-missing-clean", "No snapshot after a clean stop: producers are forgotten")
            .delete(MIDDLE, ".snapshot").delete(LAST, ".snapshot").delete(END, ".snapshot").load(true, END, 0);
        open.crash(golden, "snapshots-missing", "No snapshot after a crash: producers are found in the log")
            .delete(MIDDLE, ".snapshot").delete(LAST, ".snapshot").load(false, LAST, 0);
        open.stop(golden, "snapshot-newest-missing-clean", "The newest snapshot is gone: the last segment is read")
            .delete(END, ".snapshot").load(true, END, 0);
        open.stop(golden, "snapshot-corrupt-clean", "The newest snapshot has a flipped bit: deleted, the one before is used")
            .change(END, ".snapshot", bytes -> TailCases.flip(bytes, 30)).load(true, END, 0);
        open.stop(golden, "snapshot-short-clean", "The newest snapshot is torn").cut(END, ".snapshot", 40).load(true, END, 0);
        open.stop(golden, "snapshot-emptied-clean", "The newest snapshot has no byte").cut(END, ".snapshot", 0).load(true, END, 0);
        open.stop(golden, "snapshot-newer-clean", "The newest snapshot is of a later version")
            .change(END, ".snapshot", bytes -> bytes.putShort(0, (short) 2)).load(true, END, 0);
        open.stop(golden, "snapshots-stray-clean", "Snapshots at offsets that are no base")
            .put(5, ".snapshot", newest).put(MIDDLE + 2, ".snapshot", newest).load(true, END, 0);
        open.stop(golden, "snapshot-beyond-end-clean", "A snapshot beyond the end of the log")
            .put(END + 7, ".snapshot", newest).load(true, END, 0);
        open.crash(golden, "snapshot-beyond-end", "A snapshot beyond the end of the log, and a crash")
            .put(END + 7, ".snapshot", newest).load(false, LAST, 0);
        open.stop(golden, "snapshots-log-start-clean", "A log start above a snapshot").load(true, END, MIDDLE + 1);
        open.stop(golden, "snapshots-expired-clean", "The producers of the snapshot are idle for longer than they are kept")
            .at(Golden.T + 2 * 86_400_000L).load(true, END, 0);
    }
}
