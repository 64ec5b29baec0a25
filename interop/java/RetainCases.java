import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.MemoryRecords.RecordFilter.BatchRetention;
import org.apache.kafka.common.record.SimpleRecord;

import java.io.IOException;
import java.nio.ByteBuffer;

/** What the cleaner's rewrite makes of batches: which bytes stay, which header fields change. */
final class RetainCases {
    private static final long T = Golden.T;
    private static final long BASE = 100;

    private RetainCases() {
    }

    static void write(Golden golden) throws IOException {
        for (CompressionType codec : Samples.CODECS)
            ofCodec(golden, codec);
        timestamps(golden);
        producers(golden);
        emptied(golden);
        horizons(golden);
        markers(golden);
        several(golden);
        Retain.keep(FieldCases.headerNameNotUtf8(), 100).write(golden, "header-name-not-utf8",
            "A header name that is no UTF-8: the rewrite stores the replacement character");
        for (int magic : new int[] {0, 1})
            legacy(golden, magic);
    }

    private static void ofCodec(Golden golden, CompressionType codec) throws IOException {
        ByteBuffer input = Samples.batch().codec(codec).base(BASE).leaderEpoch(4).of(values());
        Retain.keep(input, 100, 101, 102, 103, 104).write(golden, codec.name + "-all", "All kept: the input verbatim");
        Retain.keep(input, 100).write(golden, codec.name + "-first", "Only the first record kept");
        Retain.keep(input, 101, 103).write(golden, codec.name + "-middle", "Records from the middle kept");
        Retain.keep(input, 104).write(golden, codec.name + "-last", "Only the last record kept");
        Retain.keep(input).write(golden, codec.name + "-none", "Nothing kept, so nothing written");

        ByteBuffer shapes = Samples.batch().codec(codec).base(BASE).of(CodecCases.shapes());
        Retain.keep(shapes, 100, 101, 103, 106, 107, 108).write(golden, codec.name + "-headers",
            "Null keys, empty keys, headers and binary values survive the rewrite");
        Retain.keep(shapes, 101, 102, 105, 107).write(golden, codec.name + "-tombstones",
            "Kept tombstones give the batch a delete horizon, against which all times are encoded anew");
    }

    private static void timestamps(Golden golden) throws IOException {
        ByteBuffer unordered = Samples.batch().base(BASE).of(unordered());
        Retain.keep(unordered, 100, 102).write(golden, "unordered-times-max-dropped",
            "The latest record goes: the max timestamp shrinks, the base timestamp stays that of the first");
        Retain.keep(unordered, 102, 103).write(golden, "unordered-times-first-dropped",
            "The first record goes: the base timestamp becomes that of the first kept record");
        ByteBuffer appended = Samples.stampedAtAppend(Samples.batch().base(BASE).of(unordered()), T + 777);
        Retain.keep(appended, 101, 103).write(golden, "log-append-time", "Stamped by the broker, some records kept");
        Retain.keep(appended, 100, 101, 102, 103).write(golden, "log-append-time-all", "Stamped by the broker, all kept");
        ByteBuffer appendedTombstones = Samples.stampedAtAppend(Samples.batch().base(BASE).of(tombstones()), T + 777);
        Retain.keep(appendedTombstones, 101, 102).write(golden, "log-append-time-tombstones",
            "Stamped by the broker, with a new delete horizon");
        ByteBuffer untimed = Samples.batch().base(BASE).of(
            Samples.untimed("a", "1"), Samples.untimed("b", null), Samples.untimed("c", "3"));
        Retain.keep(untimed, 102).write(golden, "no-timestamp", "Records without a timestamp");
        Retain.keep(untimed, 101, 102).write(golden, "no-timestamp-tombstone",
            "Records without a timestamp under a new delete horizon");
    }

    private static void producers(Golden golden) throws IOException {
        Retain.keep(Samples.batch().base(BASE).producer(9, 1, 50).of(values()), 102, 103)
            .write(golden, "idempotent", "Producer fields and sequences survive, the gaps too");
        Retain.keep(Samples.batch().base(BASE).producer(9, 1, Integer.MAX_VALUE - 1).of(values()), 100, 104)
            .write(golden, "sequence-wrap", "A kept record whose sequence has wrapped");
        Retain.keep(Samples.batch().base(BASE).producer(9, 1, 50).transactional().codec(CompressionType.LZ4).of(values()), 102)
            .write(golden, "transactional", "The transactional bit survives");
        Retain.keep(gaps(), 170).write(golden, "gaps",
            "A batch compacted before: base and last offset stay, though no record is there");
    }

    private static void emptied(Golden golden) throws IOException {
        Retain.keep(Samples.batch().base(BASE).producer(9, 1, 50).leaderEpoch(4).codec(CompressionType.ZSTD).of(values()))
            .retention(BatchRetention.RETAIN_EMPTY)
            .write(golden, "empty-of-producer", "Nothing kept, but the batch is a producer's last: its header stays");
        Retain.keep(Samples.batch().base(BASE).of(values())).retention(BatchRetention.RETAIN_EMPTY)
            .write(golden, "empty-without-producer", "Nothing kept, the header stays, there is no producer");
        Retain.keep(Samples.batch().base(BASE).producer(9, 1, 50).transactional().of(values()))
            .retention(BatchRetention.RETAIN_EMPTY)
            .write(golden, "empty-transactional", "Nothing kept, the header stays with its transactional bit");
        Retain.keep(Samples.stampedAtAppend(Samples.batch().base(BASE).producer(9, 1, 50).of(values()), T + 777))
            .retention(BatchRetention.RETAIN_EMPTY)
            .write(golden, "empty-log-append-time", "Nothing kept, the header stays with the append time");
        ByteBuffer empty = Retain.keep(Samples.batch().base(BASE).producer(9, 1, 50).of(values()))
            .retention(BatchRetention.RETAIN_EMPTY).output();
        Retain.keep(empty).retention(BatchRetention.RETAIN_EMPTY)
            .write(golden, "empty-again", "An empty batch that stays a producer's last is kept");
        Retain.keep(empty).write(golden, "empty-deleted", "An empty batch that is no longer needed goes");
        Retain.keep(Samples.batch().base(BASE).of(values()), 100, 101, 102, 103, 104).retention(BatchRetention.DELETE)
            .write(golden, "delete", "Dropped without a look at the records");
    }

    private static void horizons(Golden golden) throws IOException {
        ByteBuffer input = Samples.batch().base(BASE).of(tombstones());
        Retain.keep(input, 100, 101, 102, 103).write(golden, "horizon-all",
            "All kept, but a tombstone needs a horizon: the batch is rewritten");
        Retain.keep(input, 100, 103).write(golden, "horizon-not-needed", "No tombstone kept, so no horizon");
        ByteBuffer stamped = Retain.keep(input, 100, 101, 102, 103).output();
        long later = T + 2_000_000_000L;
        Retain.keep(stamped, 100, 101, 102, 103).now(later).write(golden, "horizon-again-all",
            "A batch with a horizon, all kept: verbatim");
        Retain.keep(stamped, 101, 103).now(later).write(golden, "horizon-again-some",
            "A batch with a horizon is rewritten: the horizon stays as it was");
        Retain.keep(stamped, 103).now(later).write(golden, "horizon-without-tombstones",
            "A batch with a horizon loses its last tombstone: the horizon stays");
        Retain.keep(stamped).retention(BatchRetention.RETAIN_EMPTY).now(later).write(golden, "horizon-emptied",
            "A batch with a horizon loses all records: the header stays without the horizon");
        ByteBuffer compressed = Retain.keep(Samples.batch().codec(CompressionType.ZSTD).base(BASE).of(tombstones()),
            100, 101, 102, 103).output();
        Retain.keep(compressed, 102, 103).now(later).write(golden, "horizon-again-compressed",
            "A compressed batch with a horizon is rewritten");
        ByteBuffer earlier = Samples.batch().base(BASE).of(Samples.record(T, "a", null), Samples.record(T + 5, "b", "2"));
        Retain.keep(earlier, 100, 101).now(0).write(golden, "horizon-before-records",
            "A horizon earlier than the records: the deltas are positive");
    }

    private static void markers(Golden golden) throws IOException {
        ByteBuffer commit = ControlCases.marker(BASE, ControlRecordType.COMMIT, 9, 1, 3);
        Retain.keep(commit, 100).write(golden, "marker", "A marker whose transaction still has data: verbatim");
        Retain.keep(commit, 100).markerOfEmptyTransaction().write(golden, "marker-horizon",
            "A marker whose transaction has no data left gets a horizon");
        ByteBuffer stamped = Retain.keep(commit, 100).markerOfEmptyTransaction().output();
        Retain.keep(stamped, 100).markerOfEmptyTransaction().write(golden, "marker-horizon-again",
            "A marker that has its horizon: verbatim");
        Retain.keep(stamped, 100).retention(BatchRetention.DELETE).markerOfEmptyTransaction()
            .write(golden, "marker-deleted", "A marker after its horizon");
        Retain.keep(stamped).retention(BatchRetention.RETAIN_EMPTY).markerOfEmptyTransaction()
            .write(golden, "marker-emptied", "A marker after its horizon that is its producer's last batch");
    }

    private static void several(Golden golden) throws IOException {
        ByteBuffer input = Samples.concat(
            Samples.batch().base(100).of(values()),
            Samples.batch().base(105).codec(CompressionType.GZIP).of(values()),
            Samples.batch().base(110).of(tombstones()),
            Samples.batch().base(114).of(values()));
        Retain.keep(input, 100, 101, 102, 103, 104, 106, 111, 113).write(golden, "several-batches",
            "One verbatim, one rewritten, one with a new horizon, one gone");
        Retain.keep(input, 113).retention(BatchRetention.RETAIN_EMPTY).write(golden, "several-batches-retain-empty",
            "Headers where nothing is left");
    }

    private static void legacy(Golden golden, int magic) throws IOException {
        String v = "v" + magic;
        SimpleRecord[] records = magic == 0 ? LegacyCases.untimed() : LegacyCases.timed();
        ByteBuffer plain = Samples.batch().magic(magic).base(BASE).of(records);
        Retain.keep(plain, 100, 101, 102, 103, 104).write(golden, v + "-all", "Plain messages, all kept");
        Retain.keep(plain, 101, 103).write(golden, v + "-middle", "Plain messages, some with values kept");
        Retain.keep(plain, 100, 102).write(golden, v + "-tombstone", "Plain messages, a tombstone among the kept");
        Retain.keep(plain).write(golden, v + "-none", "Plain messages, none kept");
        for (CompressionType codec : LegacyCases.CODECS) {
            ByteBuffer wrapped = Samples.batch().magic(magic).codec(codec).base(BASE).of(records);
            Retain.keep(wrapped, 100, 101, 102, 103, 104).write(golden, v + "-" + codec.name + "-all", "A wrapper, all kept");
            Retain.keep(wrapped, 101, 103).write(golden, v + "-" + codec.name + "-middle", "A wrapper, some with values kept");
            Retain.keep(wrapped, 102, 103).write(golden, v + "-" + codec.name + "-tombstone", "A wrapper, a tombstone kept");
        }
        ByteBuffer wrapped = Samples.batch().magic(magic).codec(CompressionType.GZIP).base(BASE).of(records);
        // RETAIN_EMPTY is no case here: filterTo throws when it would have to leave an empty legacy batch.
        Retain.keep(wrapped).write(golden, v + "-gzip-none", "A wrapper, none kept");
        ByteBuffer values = Samples.batch().magic(magic).codec(CompressionType.GZIP).base(BASE)
            .of(records[0], records[1], records[3]);
        Retain.keep(values, 100, 101, 102).write(golden, v + "-gzip-values-all", "A wrapper without tombstones, all kept");
        if (magic == 1) {
            ByteBuffer stamped = Samples.batch().magic(1).codec(CompressionType.GZIP).base(BASE).logAppendTime(T + 777).of(records);
            Retain.keep(stamped, 100, 101).write(golden, "v1-log-append-time", "A wrapper stamped by the broker");
            ByteBuffer plainStamped = Samples.batch().magic(1).base(BASE).logAppendTime(T + 777).of(records);
            Retain.keep(plainStamped, 100, 101).write(golden, "v1-log-append-time-plain", "Plain messages stamped by the broker");
        }
    }

    private static SimpleRecord[] values() {
        return new SimpleRecord[] {
            Samples.record(T, "a", "first"), Samples.record(T + 1, "b", "second"), Samples.record(T + 2, "c", "third"),
            Samples.record(T + 3, "d", ""), Samples.record(T + 4, "e", "fifth"),
        };
    }

    private static SimpleRecord[] unordered() {
        return new SimpleRecord[] {
            Samples.record(T, "a", "1"), Samples.record(T + 900, "b", "2"),
            Samples.record(T - 300, "c", "3"), Samples.record(T + 200, "d", "4"),
        };
    }

    private static SimpleRecord[] tombstones() {
        return new SimpleRecord[] {
            Samples.record(T, "a", "1"), Samples.record(T + 900, "b", null),
            Samples.record(T - 300, "c", null, Samples.header("why", "gone")), Samples.record(T + 200, "d", "4"),
        };
    }

    private static ByteBuffer gaps() {
        var builder = Samples.batch().base(BASE).builder();
        builder.appendWithOffset(103, Samples.record(T, "a", "1"));
        builder.appendWithOffset(170, Samples.record(T + 1, "b", "2"));
        builder.overrideLastOffset(199);
        return builder.build().buffer();
    }
}
