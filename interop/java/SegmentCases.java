import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.RecordVersion;

import java.nio.ByteBuffer;
import java.util.Map;
import java.util.TreeMap;

/** Segments of whole partitions: as appended, and after rounds of the cleaner. */
final class SegmentCases {
    private static final long T = Golden.T;
    private static final long DAY = 86_400_000L;

    private SegmentCases() {
    }

    static void write(Golden golden) throws Exception {
        appended(golden);
        compacted(golden);
        transactions(golden);
        legacy(golden);
    }

    private static Map<String, String> config(String... namesAndValues) {
        // Sorted, so that the golden file lists the settings in one order.
        Map<String, String> config = new TreeMap<>(Map.of(
            "internal.segment.bytes", "500", "index.interval.bytes", "0", "segment.index.bytes", "4096"));
        for (int i = 0; i < namesAndValues.length; i += 2)
            config.put(namesAndValues[i], namesAndValues[i + 1]);
        return config;
    }

    private static void appended(Golden golden) throws Exception {
        try (Partition partition = new Partition(config("cleanup.policy", "delete"))) {
            for (int i = 0; i < 10; i++)
                partition.append(i / 4, Samples.batch().codec(Samples.CODECS[i % Samples.CODECS.length])
                    .producer(9, 0, 3 * i).of(FieldCases.three()));
            partition.write(golden, "appended", "Appended by one idempotent producer, all codecs, three leader epochs");
        }
        try (Partition partition = new Partition(config("message.timestamp.type", "LogAppendTime"))) {
            for (int i = 0; i < 10; i++)
                partition.append(0, Samples.batch().codec(Samples.CODECS[i % Samples.CODECS.length]).of(FieldCases.three()));
            partition.write(golden, "appended-log-append-time", "Appended to a topic that stamps the append time");
        }
        try (Partition partition = new Partition(config("compression.type", "gzip"))) {
            for (CompressionType codec : Samples.CODECS)
                partition.append(0, Samples.batch().codec(codec).of(FieldCases.three()));
            partition.write(golden, "appended-recompressed", "Appended to a topic that compresses everything with gzip");
        }
    }

    private static void compacted(Golden golden) throws Exception {
        try (Partition partition = new Partition(config("cleanup.policy", "compact"))) {
            for (int i = 0; i < 12; i++)
                partition.append(0, keyed(i));
            partition.append(0, Samples.batch().of(Samples.record(T + 12, "k1", null), Samples.record(T + 13, "gone", null)));
            partition.roll();
            partition.append(0, Samples.batch().of(Samples.record(T + 14, "active", "1")));
            partition.write(golden, "compact-before", "Keys written several times and two tombstones, not yet cleaned");
            partition.clean(T + DAY);
            partition.write(golden, "compact-round-1", "After one round: latest values, tombstones under a horizon");
            partition.append(0, Samples.batch().of(Samples.record(T + 15, "k2", "newest"), Samples.record(T + 16, "k5", "new")));
            partition.roll();
            partition.append(0, Samples.batch().of(Samples.record(T + 17, "active", "2")));
            partition.write(golden, "compact-between", "After one round and more appends");
            partition.clean(T + 3 * DAY);
            partition.write(golden, "compact-round-2", "After a round beyond the horizon: the tombstones are gone");
        }
    }

    private static ByteBuffer keyed(int i) {
        return Samples.batch().codec(Samples.CODECS[i % Samples.CODECS.length]).of(
            Samples.record(T + i, "k" + i % 4, "value " + i, Samples.header("round", "" + i / 4)),
            Samples.record(T + i, "j" + i % 3, "other " + i));
    }

    private static void transactions(Golden golden) throws Exception {
        try (Partition partition = new Partition(config("cleanup.policy", "compact"))) {
            transaction(partition, 9, 0, ControlRecordType.COMMIT);
            transaction(partition, 10, 0, ControlRecordType.ABORT);
            transaction(partition, 9, 3, ControlRecordType.ABORT);
            partition.append(0, Samples.batch().producer(11, 0, 0).of(FieldCases.three()));
            transaction(partition, 9, 6, ControlRecordType.COMMIT);
            partition.roll();
            partition.append(0, Samples.batch().of(Samples.record(T + 20, "active", "1")));
            partition.write(golden, "transactions-before", "Committed and aborted transactions over the same keys");
            partition.clean(T + DAY / 2);
            partition.write(golden, "transactions-round-1", "After one round: aborted data gone, markers kept");
            partition.append(0, Samples.batch().of(Samples.record(T + 21, "a", "after"), Samples.record(T + 22, "b", "after")));
            partition.roll();
            partition.append(0, Samples.batch().of(Samples.record(T + 23, "active", "2")));
            partition.clean(T + DAY / 2 + 1);
            partition.write(golden, "transactions-round-2", "After a second round: markers without data get a horizon");
            partition.append(0, Samples.batch().of(Samples.record(T + 24, "c", "after")));
            partition.roll();
            partition.append(0, Samples.batch().of(Samples.record(T + 25, "active", "3")));
            partition.clean(T + 3 * DAY);
            partition.write(golden, "transactions-round-3", "After a third round beyond the horizon");
        }
    }

    private static void transaction(Partition partition, long producerId, int sequence, ControlRecordType end)
            throws Exception {
        partition.append(0, Samples.batch().producer(producerId, 0, sequence).transactional().of(FieldCases.three()));
        partition.appendMarker(0, ControlCases.marker(0, end, producerId, 0, 0));
    }

    private static void legacy(Golden golden) throws Exception {
        try (Partition partition = new Partition(config("cleanup.policy", "compact"))) {
            for (int i = 0; i < 3; i++)
                partition.appendLegacy(RecordVersion.V0, Samples.batch().magic(0)
                    .codec(i == 0 ? CompressionType.NONE : CompressionType.GZIP)
                    .of(Samples.untimed("a", "v0 " + i), Samples.untimed("b" + i, "v0"), Samples.untimed("c", "v0 " + i)));
            for (int i = 0; i < 3; i++)
                partition.appendLegacy(RecordVersion.V1, Samples.batch().magic(1)
                    .codec(i == 0 ? CompressionType.NONE : CompressionType.LZ4)
                    .of(Samples.record(T, "a", "v1 " + i), Samples.record(T + i, "d" + i, "v1"), Samples.record(T, "b0", null)));
            partition.append(0, Samples.batch().of(Samples.record(T, "c", "v2")));
            partition.roll();
            partition.append(0, Samples.batch().of(Samples.record(T + 1, "active", "v2")));
            partition.write(golden, "legacy-before", "Segments from v0 to v2, not yet cleaned");
            partition.clean(T + DAY);
            partition.write(golden, "legacy-round-1", "After one round: what is left is v2");
        }
    }
}
