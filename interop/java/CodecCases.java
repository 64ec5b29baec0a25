import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.SimpleRecord;

import java.io.IOException;

/** v2 batches of every codec, with every shape of key, value, header and timestamp. */
final class CodecCases {
    private static final long T = Golden.T;
    private static final long BEYOND_32_BITS = 5_000_000_000L;

    private CodecCases() {
    }

    static void write(Golden golden) throws IOException {
        for (CompressionType codec : Samples.CODECS) {
            golden.batches("v2-create-time-" + codec.name,
                "Every shape of key, value and header; times before and far from the first; offsets beyond 32 bits",
                Samples.batch().codec(codec).base(BEYOND_32_BITS).leaderEpoch(3).of(shapes()));
            golden.batches("v2-log-append-time-" + codec.name,
                "The same records stamped by the broker: every record reads as the max timestamp",
                Samples.stampedAtAppend(
                    Samples.batch().codec(codec).base(40).leaderEpoch(3).of(shapes()), T + 123_456));
            if (codec != CompressionType.NONE)
                golden.batches("v2-large-" + codec.name,
                    "Values that span several blocks of the codec, one of them incompressible",
                    Samples.batch().codec(codec).base(1000).of(large()));
        }
    }

    static SimpleRecord[] shapes() {
        return new SimpleRecord[] {
            Samples.record(T, "key", "value"),
            Samples.record(T - 5000, null, "null key, earlier than the first record"),
            Samples.record(T + BEYOND_32_BITS, "null value", null),
            Samples.record(T - BEYOND_32_BITS, "", ""),
            Samples.record(0, "time zero", "value"),
            Samples.record(T + 1, null, null),
            Samples.record(T + 2, "one header", "value", Samples.header("name", "content")),
            Samples.record(T + 3, "headers", "value",
                Samples.header("twice", "first"),
                Samples.header("twice", "second"),
                Samples.header("null value", null),
                Samples.header("", ""),
                Samples.header("gezeiten-höhe-潮", "größe 潮")),
            new SimpleRecord(T + 4, new byte[] {(byte) 0xff, 0, (byte) 0xfe}, new byte[] {(byte) 0x80, 1, 2}),
            new SimpleRecord(T + 5, Samples.text(64, 1), Samples.text(300, 2)),
        };
    }

    private static SimpleRecord[] large() {
        return new SimpleRecord[] {
            new SimpleRecord(T, Samples.text(20, 3), Samples.text(70_000, 4)),
            new SimpleRecord(T + 1, Samples.text(20, 5), Samples.noise(68_000, 6)),
            new SimpleRecord(T + 2, Samples.text(20, 7), Samples.text(12_000, 8)),
            Samples.record(T + 3, "last", "small"),
        };
    }
}
