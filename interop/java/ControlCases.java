import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.SimpleRecord;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;

/** Control batches: transaction markers, the records of KRaft, and types from the future. */
final class ControlCases {
    private static final long T = Golden.T;

    private ControlCases() {
    }

    static void write(Golden golden) throws IOException {
        golden.batches("v2-commit-marker", "The COMMIT marker of a transaction",
            marker(42, ControlRecordType.COMMIT, 9, 1, 3));
        golden.batches("v2-abort-marker", "The ABORT marker of a transaction",
            marker(Long.MAX_VALUE / 2, ControlRecordType.ABORT, 9, 1, 3));
        golden.batches("v2-transaction", "Two transactions of one producer, the first committed, the second aborted",
            Samples.batch().base(0).producer(9, 1, 0).transactional().of(FieldCases.three()),
            marker(3, ControlRecordType.COMMIT, 9, 1, 0),
            Samples.batch().base(4).producer(9, 1, 3).transactional().codec(CompressionType.SNAPPY).of(FieldCases.three()),
            marker(7, ControlRecordType.ABORT, 9, 1, 0));
        golden.batches("v2-kraft-control", "One batch of each control type of the metadata log", kraft());
        golden.batches("v2-unknown-control", "A control type that this Kafka does not know",
            control(new byte[] {0, 0, 0, 77}, new byte[] {0, 0, 1, 2, 3}));
        golden.batches("v2-newer-marker", "A COMMIT marker whose key and value are longer and of a later version",
            control(new byte[] {0, 1, 0, 1, 5, 5}, new byte[] {0, 1, 0, 0, 0, 8, 6, 6}));
        golden.batches("v2-compressed-marker", "A marker batch that arrived compressed", compressedMarker());
    }

    static ByteBuffer marker(long offset, ControlRecordType type, long producerId, int epoch, int coordinatorEpoch) {
        return MemoryRecords.withEndTransactionMarker(offset, T, 0, producerId, (short) epoch,
            new EndTransactionMarker(type, coordinatorEpoch)).buffer();
    }

    private static ByteBuffer[] kraft() {
        var voters = List.of(new LeaderChangeMessage.Voter().setVoterId(1), new LeaderChangeMessage.Voter().setVoterId(2));
        return new ByteBuffer[] {
            MemoryRecords.withLeaderChangeMessage(0, T, 5, ByteBuffer.allocate(256),
                new LeaderChangeMessage().setLeaderId(1).setVoters(voters).setGrantingVoters(voters)).buffer(),
            MemoryRecords.withSnapshotHeaderRecord(1, T, 5, ByteBuffer.allocate(256),
                new SnapshotHeaderRecord().setLastContainedLogTimestamp(T)).buffer(),
            MemoryRecords.withSnapshotFooterRecord(2, T, 5, ByteBuffer.allocate(256),
                new SnapshotFooterRecord()).buffer(),
            MemoryRecords.withKRaftVersionRecord(3, T, 5, ByteBuffer.allocate(256),
                new KRaftVersionRecord().setKRaftVersion((short) 1)).buffer(),
            MemoryRecords.withVotersRecord(4, T, 5, ByteBuffer.allocate(256),
                new VotersRecord().setVoters(List.of(new VotersRecord.Voter().setVoterId(1)))).buffer(),
        };
    }

    /** A control record as it stands: the builder's checked methods refuse types that Kafka does not know. */
    private static ByteBuffer control(byte[] key, byte[] value) throws IOException {
        MemoryRecordsBuilder builder = Samples.batch().base(50).producer(9, 1, -1).transactional().control().builder();
        builder.appendUncheckedWithOffset(50, new SimpleRecord(T, key, value));
        return builder.build().buffer();
    }

    private static ByteBuffer compressedMarker() {
        MemoryRecordsBuilder builder = Samples.batch().base(50).codec(CompressionType.GZIP)
            .producer(9, 1, -1).transactional().control().builder();
        builder.appendEndTxnMarker(T, new EndTransactionMarker(ControlRecordType.COMMIT, 3));
        return builder.build().buffer();
    }
}
