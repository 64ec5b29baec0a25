import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.storage.internals.log.AppendOrigin;

import java.io.IOException;
import java.nio.ByteBuffer;

/** What the leader does to the batches it accepts: offsets, epochs, codecs, timestamps. */
final class ContentCases {
    private static final long T = Golden.T;

    private ContentCases() {
    }

    static void write(Golden golden) throws IOException {
        codecs(golden);
        timestamps(golden);
        kinds(golden);
        leaderEpochs(golden);
        flushes(golden);
    }

    private static SimpleRecord[] shapes() {
        return new SimpleRecord[] {
            Samples.record(T + 4, "a", "1", Samples.header("h", "x"), Samples.header("h", null), Samples.header("", "")),
            Samples.record(T, "b", null), Samples.record(T + 9, null, "3"), Samples.record(T + 2, "", ""),
        };
    }

    private static ByteBuffer shapes(CompressionType codec) {
        return Samples.batch().codec(codec).of(shapes());
    }

    private static void codecs(Golden golden) throws IOException {
        Recorder kept = new Recorder(golden, "codec-kept", "compression.type=producer keeps every codec as it came",
            Logs.config("internal.segment.bytes", "600"));
        for (CompressionType codec : Samples.CODECS)
            kept.append(0, shapes(codec));
        kept.commit().readAround(200).timesAround(T, T + 2, T + 9).finish();
        for (String target : new String[] {"uncompressed", "gzip", "snappy", "lz4", "zstd"}) {
            Recorder log = new Recorder(golden, "codec-to-" + target, "Everything is stored with the topic's codec",
                Logs.config("internal.segment.bytes", "600", "compression.type", target));
            for (CompressionType codec : Samples.CODECS)
                log.append(0, shapes(codec));
            log.append(0, Samples.batch().codec(CompressionType.LZ4).producer(9, 3, 5).of(FieldCases.three()));
            log.append(0, Samples.batch().codec(CompressionType.GZIP).producer(9, 3, 8).transactional().of(FieldCases.three()));
            log.commit().timesAround(T, T + 9).finish();
        }
        new Recorder(golden, "codec-grown", "A batch that is below max.message.bytes only while it is compressed",
            Logs.config("internal.segment.bytes", "1000", "compression.type", "uncompressed", "max.message.bytes", "300"))
            .append(0, Samples.batch().codec(CompressionType.GZIP).of(Samples.record(T, "k", "x".repeat(220))))
            .append(0, Samples.batch().codec(CompressionType.GZIP).of(Samples.record(T, "k", "x".repeat(240))))
            .finish();
        Recorder stamped = new Recorder(golden, "codec-log-append-time", "Rebuilt and stamped by the broker's clock",
            Logs.config("internal.segment.bytes", "600", "compression.type", "uncompressed",
                "message.timestamp.type", "LogAppendTime"));
        stamped.append(0, shapes(CompressionType.GZIP)).at(T + 3).append(0, shapes(CompressionType.NONE))
            .at(T + 5).append(0, shapes(CompressionType.ZSTD)).commit().timesAround(T, T + 3, T + 5).finish();
    }

    private static void timestamps(Golden golden) throws IOException {
        ByteBuffer pair = Inputs.at(T + 3, T + 7);
        new Recorder(golden, "max-timestamp-corrected", "A header that names another largest time than the records have",
            Logs.config())
            .append(0, Inputs.sealed(pair, batch -> batch.putLong(Inputs.MAX_TIMESTAMP, T)))
            .append(0, Inputs.sealed(pair, batch -> batch.putLong(Inputs.MAX_TIMESTAMP, T + 50)))
            .append(0, Inputs.sealed(pair, batch -> batch.putLong(Inputs.MAX_TIMESTAMP, -1)))
            .append(0, Inputs.sealed(Samples.batch().codec(CompressionType.GZIP).of(Inputs.records(T + 3, T + 7)),
                batch -> batch.putLong(Inputs.MAX_TIMESTAMP, T + 50)))
            .append(0, pair).commit().readAround(200).timesAround(T + 3, T + 7, T + 50).finish();
        new Recorder(golden, "append-time-flag-cleared", "Batches that claim append times, sent to a CreateTime topic",
            Logs.config("message.timestamp.before.max.ms", "1000", "message.timestamp.after.max.ms", "1000"))
            .append(0, flagged(T + 3, T + 7))
            .append(0, Inputs.sealed(flagged(T + 3, T + 7), batch -> batch.putLong(Inputs.MAX_TIMESTAMP, T + 1000)))
            .append(0, Inputs.sealed(flagged(T + 3, T + 7), batch -> batch.putLong(Inputs.MAX_TIMESTAMP, T + 1001)))
            .append(0, flagged(T - 5000, T + 7)).append(0, flagged(-1, -1)).append(0, flagged(-1, T))
            .commit().timesAround(T + 3, T + 7).finish();
        new Recorder(golden, "append-time-flag-refused", "Batches that claim append times, sent to a LogAppendTime topic",
            Logs.config("message.timestamp.type", "LogAppendTime"))
            .append(0, flagged(T + 3, T + 7)).append(0, Inputs.at(T + 3, T + 7)).append(0, Inputs.at(-1, -1))
            .append(0, Inputs.at(T - 900_000_000, T + 900_000_000)).commit().timesAround(T).finish();
        Recorder missing = new Recorder(golden, "timestamps-partly-missing", "Records without a time next to others", Logs.config());
        missing.append(0, Inputs.at(-1, T + 4), Inputs.at(T + 4, -1), Inputs.at(-1, -1), Inputs.at(T + 2, -1, T + 6))
            .commit().timesAround(T + 2, T + 4, T + 6).finish();
    }

    static ByteBuffer flagged(long... timestamps) {
        return Inputs.sealed(Inputs.at(timestamps), batch -> batch.putShort(Inputs.ATTRIBUTES, (short) 8));
    }

    private static void kinds(Golden golden) throws IOException {
        new Recorder(golden, "attribute-bits", "Bits that no writer sets: kept as they came, lost when the header is rewritten",
            Logs.config())
            .append(0, Inputs.sealed(Inputs.at(T), batch -> batch.putShort(Inputs.ATTRIBUTES, (short) 0x0080)))
            .append(0, Inputs.sealed(Inputs.at(T), batch -> batch.putShort(Inputs.ATTRIBUTES, (short) 0x7f00)))
            .append(0, Inputs.sealed(Inputs.at(T), batch -> batch.putShort(Inputs.ATTRIBUTES, (short) 0x7f80)
                .putLong(Inputs.MAX_TIMESTAMP, T + 1)))
            .append(0, Inputs.sealed(Inputs.at(T), batch -> batch.putShort(Inputs.ATTRIBUTES, (short) 0x0040)))
            .commit().readAround(100).timesAround(T).finish();
        new Recorder(golden, "coordinator", "What the coordinator may send: markers, and batches whose base offset is not 0", Logs.config())
            .append(2, Samples.batch().producer(9, 0, 0).transactional().of(FieldCases.three()))
            .append(2, AppendOrigin.COORDINATOR, ControlCases.marker(0, ControlRecordType.COMMIT, 9, 0, 5))
            .append(2, Samples.batch().producer(9, 0, 3).transactional().of(FieldCases.three()))
            .append(3, AppendOrigin.COORDINATOR, ControlCases.marker(0, ControlRecordType.ABORT, 9, 0, 5))
            .append(3, AppendOrigin.COORDINATOR, Inputs.one(T + 5))
            .append(3, AppendOrigin.COORDINATOR, Samples.batch().base(77).of(FieldCases.three()))
            .commit().readAround(200).timesAround(T, T + 5).finish();
    }

    private static void leaderEpochs(Golden golden) throws IOException {
        Recorder log = new Recorder(golden, "leader-epochs", "Epochs that rise, rise inside a segment, repeat, skip and fall",
            Logs.config("internal.segment.bytes", "310"));
        for (int epoch : new int[] {0, 0, 2, 2, 2, 5, 5, 6, 9, 9})
            log.append(epoch, Inputs.at(T + epoch, T + epoch));
        log.commit().offsetForEpoch(-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10).timesAround(T + 2, T + 9);
        // A leader never goes back in real life; the cache then drops what contradicts.
        log.append(4, Inputs.one(T)).offsetForEpoch(0, 2, 3, 4, 5, 9).append(-1, Inputs.one(T)).offsetForEpoch(-1, 0, 4).finish();
    }

    private static void flushes(Golden golden) throws IOException {
        Recorder log = new Recorder(golden, "flush-messages", "Flushed whenever three records are not flushed yet",
            Logs.config("flush.messages", "3"));
        log.append(0, Inputs.one(T), Inputs.one(T), Inputs.one(T), Inputs.at(T, T, T, T), Inputs.at(T, T), Inputs.one(T))
            .flush().append(0, Inputs.one(T)).flush().roll().finish();
    }
}
