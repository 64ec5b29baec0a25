import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.common.utils.Utils;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/**
 * Writes the golden files of the Python tests: {@code Golden OUTDIR}.
 *
 * <p>The folders of OUTDIR named in {@link #FOLDERS} are replaced. Nothing depends on the clock or on chance,
 * so a second run gives the same bytes.
 */
public final class Golden {
    /** The time of everything that has no reason to have another one. */
    static final long T = 1_700_000_000_000L;

    private static final String[] FOLDERS = {"batches", "retain", "segments", "partitions", "recovery", "internal"};

    private final Path root;

    private Golden(Path root) {
        this.root = root;
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 1) {
            System.err.println("usage: Golden OUTDIR");
            System.exit(2);
        }
        write(Path.of(args[0]));
    }

    static void write(Path root) throws Exception {
        Golden golden = new Golden(root);
        for (String folder : FOLDERS) {
            Utils.delete(golden.root.resolve(folder).toFile());
            Files.createDirectories(golden.root.resolve(folder));
        }
        CodecCases.write(golden);
        FieldCases.write(golden);
        ControlCases.write(golden);
        LegacyCases.write(golden);
        FramingCases.write(golden);
        RetainCases.write(golden);
        SegmentCases.write(golden);
        IndexCases.write(golden);
        RollCases.write(golden);
        ContentCases.write(golden);
        RefusalCases.write(golden);
        ReplicaCases.write(golden);
        TruncationCases.write(golden);
        OldLogCases.write(golden);
        TailCases.write(golden);
        IndexDamageCases.write(golden);
        FolderCases.write(golden);
        LeftoverCases.write(golden);
        ProducerDamageCases.write(golden);
        InternalCases.write(golden);
    }

    /** One case of raw batches: the bytes, and what Kafka reads from them. */
    void batches(String name, String about, ByteBuffer... batches) throws IOException {
        ByteBuffer bytes = Samples.concat(batches);
        log("batches/" + name + ".log", bytes);
        Map<String, Object> document = headline(name, about);
        document.put("batches", Describe.batches(bytes));
        json("batches/" + name + ".json", document);
    }

    static Map<String, Object> headline(String name, String about) {
        return Json.object("case", name, "about", about, "kafka_version", AppInfoParser.getVersion());
    }

    void log(String name, ByteBuffer bytes) throws IOException {
        Path path = root.resolve(name);
        Files.createDirectories(path.getParent());
        Files.write(path, Samples.bytes(bytes));
    }

    /** A folder of this name, made if need be. */
    Path folder(String name) throws IOException {
        return Files.createDirectories(root.resolve(name));
    }

    /** A document whose lists of objects take one line per object: long, but easy to compare. */
    void lines(String name, Map<String, Object> document) throws IOException {
        Files.write(root.resolve(name), Json.lines(document).getBytes(StandardCharsets.UTF_8));
    }

    void json(String name, Map<String, Object> document) throws IOException {
        Files.write(root.resolve(name), Json.pretty(document).getBytes(StandardCharsets.UTF_8));
    }
}
