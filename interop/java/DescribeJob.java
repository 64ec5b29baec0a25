import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.utils.AppInfoParser;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;

/**
 * Answers what Kafka reads from a "file" of record batches: "kafka_version", "size_bytes", "batches".
 *
 * <p>The file is read twice, as a broker does (from the file) and as a consumer does (from memory), and both must see the same
 * batches. If Kafka refuses something, there is an "error" beside the batches before it. A torn tail is no error to Kafka: the
 * batches are then shorter than "size_bytes".
 */
final class DescribeJob implements Jobs.Job {
    @Override
    public Object run(Map<String, Object> request) {
        File file = new File((String) request.get("file"));
        List<Object> batches = new ArrayList<>();
        Map<String, Object> document = Json.object(
            "kafka_version", AppInfoParser.getVersion(),
            "size_bytes", file.length(),
            "batches", batches);
        // Damaged lengths can also end in an attempt to allocate far too much.
        try {
            ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(file.toPath()));
            Describe.into(bytes, batches);
            compareWithBroker(file, bytes);
        } catch (Exception | OutOfMemoryError e) {
            document.put("error", e.toString());
        }
        return document;
    }

    private static void compareWithBroker(File file, ByteBuffer bytes) throws IOException {
        // Closed by hand: FileRecords.close() would trim the file it was given to read.
        FileRecords onDisk = FileRecords.open(file, false);
        try {
            Iterator<? extends RecordBatch> fromFile = onDisk.batches().iterator();
            for (RecordBatch inMemory : MemoryRecords.readableRecords(bytes).batches()) {
                RecordBatch batch = fromFile.next();
                batch.ensureValid();
                if (!headline(batch).equals(headline(inMemory)))
                    throw new IllegalStateException("broker reads " + headline(batch)
                        + ", consumer reads " + headline(inMemory));
            }
            if (fromFile.hasNext())
                throw new IllegalStateException("only the broker reads " + headline(fromFile.next()));
        } finally {
            onDisk.closeHandlers();
        }
    }

    private static List<Object> headline(RecordBatch batch) {
        return List.of(batch.magic(), batch.baseOffset(), batch.lastOffset(), batch.sizeInBytes(),
            batch.maxTimestamp(), batch.checksum());
    }
}
