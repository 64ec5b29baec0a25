import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.DefaultRecordBatch;
import org.apache.kafka.common.record.FileLogInputStream.FileChannelRecordBatch;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.Records;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;

/**
 * Kafka's own classes on the jobs that the Python benchmarks measure:
 * {@code Bench JOB FILE.log [--warmup-seconds 4] [--samples 7] [--sample-seconds 0.7]}.
 *
 * <p>Prints one line of JSON. A sample is the records per second of as many whole passes over the file as fit
 * into its time, at least one. All work happens on one thread; pin the process (taskset) to compare core with core,
 * but give the warm-up time enough then, because the JIT compiles on the same core.
 */
public final class Bench {
    private static final int FETCH_BYTES = 1024 * 1024;
    private static final int BATCH_BYTES = 16 * 1024;

    /** Everything that is read goes in here and is printed, so that the JIT cannot drop the reading. */
    private long blackhole;

    private final BufferSupplier decompression = BufferSupplier.create();

    private Bench() {
    }

    /** One pass over the input. */
    private interface Pass {
        Volume run() throws IOException;
    }

    private record Volume(long records, long bytes) {
    }

    public static void main(String[] args) throws IOException {
        if (args.length < 2 || args.length % 2 != 0) {
            System.err.println("usage: Bench decode-memory|decode-memory-crc|decode-file-crc|decode-fetch-crc|build FILE.log "
                + "[--warmup-seconds 4] [--samples 7] [--sample-seconds 0.7]");
            System.exit(2);
        }
        double warmupSeconds = 4;
        int samples = 7;
        double sampleSeconds = 0.7;
        for (int i = 2; i < args.length; i += 2) {
            switch (args[i]) {
                case "--warmup-seconds" -> warmupSeconds = Double.parseDouble(args[i + 1]);
                case "--samples" -> samples = Integer.parseInt(args[i + 1]);
                case "--sample-seconds" -> sampleSeconds = Double.parseDouble(args[i + 1]);
                default -> throw new IllegalArgumentException("unknown option " + args[i]);
            }
        }
        new Bench().measure(args[0], new File(args[1]), warmupSeconds, samples, sampleSeconds);
    }

    private void measure(String job, File file, double warmupSeconds, int samples, double sampleSeconds)
            throws IOException {
        Pass pass = job(job, file);
        Volume volume = pass.run();
        sample(pass, warmupSeconds);
        List<Object> rates = new ArrayList<>();
        for (int i = 0; i < samples; i++)
            rates.add(sample(pass, sampleSeconds));
        System.out.println(Json.line(Json.object(
            "job", job,
            "records", volume.records(),
            "bytes", volume.bytes(),
            "samples", rates,
            "kafka_version", AppInfoParser.getVersion(),
            "java_version", System.getProperty("java.version"),
            "blackhole", blackhole)));
    }

    private static long sample(Pass pass, double seconds) throws IOException {
        long start = System.nanoTime();
        long records = 0;
        double elapsed;
        do {
            records += pass.run().records();
            elapsed = (System.nanoTime() - start) / 1e9;
        } while (elapsed < seconds);
        return Math.round(records / elapsed);
    }

    private Pass job(String name, File file) throws IOException {
        return switch (name) {
            case "decode-memory" -> decodeMemory(file, false);
            case "decode-memory-crc" -> decodeMemory(file, true);
            case "decode-file-crc" -> decodeFile(file);
            case "decode-fetch-crc" -> decodeFetches(file);
            case "walk-file" -> walkFile(file);
            case "build" -> build(file);
            default -> throw new IllegalArgumentException("unknown job " + name);
        };
    }

    private Pass decodeMemory(File file, boolean checkCrc) throws IOException {
        ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(file.toPath()));
        return () -> {
            long records = 0;
            for (MutableRecordBatch batch : MemoryRecords.readableRecords(bytes).batches()) {
                if (checkCrc)
                    batch.ensureValid();
                records += consume(batch);
            }
            return new Volume(records, bytes.remaining());
        };
    }

    /** Reads a segment as Kafka itself does when it loads or dumps one: batch by batch from the file. */
    private Pass decodeFile(File file) throws IOException {
        FileRecords log = FileRecords.open(file, false);
        return () -> {
            long records = 0;
            for (FileChannelRecordBatch batch : log.batches()) {
                batch.ensureValid();
                records += consume(batch);
            }
            return new Volume(records, log.sizeInBytes());
        };
    }

    /** Walks a segment as Kafka does to find an offset: headers only, batches count instead of records. */
    private Pass walkFile(File file) throws IOException {
        FileRecords log = FileRecords.open(file, false);
        return () -> {
            long batches = 0;
            long touched = 0;
            for (FileChannelRecordBatch batch : log.batches()) {
                touched += batch.lastOffset() + batch.maxTimestamp();
                batches++;
            }
            blackhole += touched;
            return new Volume(batches, log.sizeInBytes());
        };
    }

    /** Reads as a consumer fetches: a mebibyte at a time, of which only whole batches count. */
    private Pass decodeFetches(File file) throws IOException {
        FileRecords log = FileRecords.open(file, false);
        ByteBuffer buffer = ByteBuffer.allocate(FETCH_BYTES);
        return () -> {
            long records = 0;
            int position = 0;
            while (position + Records.LOG_OVERHEAD <= log.sizeInBytes()) {
                buffer.clear();
                log.readInto(buffer, position);
                int start = position;
                for (MutableRecordBatch batch : MemoryRecords.readableRecords(buffer).batches()) {
                    batch.ensureValid();
                    records += consume(batch);
                    position += batch.sizeInBytes();
                }
                if (position == start)
                    throw new IllegalArgumentException("no whole batch within a fetch at position " + position);
            }
            return new Volume(records, position);
        };
    }

    private long consume(RecordBatch batch) {
        long records = 0;
        long touched = 0;
        try (CloseableIterator<Record> iterator = batch.streamingIterator(decompression)) {
            while (iterator.hasNext()) {
                Record record = iterator.next();
                ByteBuffer key = record.key();
                ByteBuffer value = record.value();
                touched += record.offset() + record.timestamp()
                    + (key == null ? 0 : key.remaining()) + (value == null ? 0 : value.remaining());
                records++;
            }
        }
        blackhole += touched;
        return records;
    }

    /** Builds as a producer does: into one buffer of a batch's size, until the next record has no room. */
    private Pass build(File file) throws IOException {
        List<byte[]> keyList = new ArrayList<>();
        List<byte[]> valueList = new ArrayList<>();
        List<Long> timestampList = new ArrayList<>();
        for (Record record : MemoryRecords.readableRecords(ByteBuffer.wrap(Files.readAllBytes(file.toPath()))).records()) {
            keyList.add(record.hasKey() ? Samples.bytes(record.key()) : null);
            valueList.add(record.hasValue() ? Samples.bytes(record.value()) : null);
            timestampList.add(record.timestamp());
        }
        byte[][] keys = keyList.toArray(new byte[0][]);
        byte[][] values = valueList.toArray(new byte[0][]);
        long[] timestamps = timestampList.stream().mapToLong(Long::longValue).toArray();
        ByteBuffer buffer = ByteBuffer.allocate(BATCH_BYTES);
        Header[] noHeaders = Record.EMPTY_HEADERS;

        return () -> {
            long bytes = 0;
            int next = 0;
            while (next < keys.length) {
                buffer.clear();
                MemoryRecordsBuilder builder =
                    MemoryRecords.builder(buffer, Compression.NONE, TimestampType.CREATE_TIME, next);
                do {
                    builder.append(timestamps[next], keys[next], values[next], noHeaders);
                    next++;
                } while (next < keys.length
                    && builder.hasRoomFor(timestamps[next], keys[next], values[next], noHeaders));
                MemoryRecords batch = builder.build();
                bytes += batch.sizeInBytes();
                blackhole += batch.buffer().getInt(DefaultRecordBatch.CRC_OFFSET);
            }
            return new Volume(keys.length, bytes);
        };
    }
}
