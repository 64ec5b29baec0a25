import org.apache.kafka.common.utils.Exit;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Runs Kafka's dump tool over all segments of the partition "directory". Answers with what the tool printed ("out", "err") and
 * threw ("error"), and about which "files", for each of three ways to call it. With a "decoder", an option of the tool for one of
 * the internal topics, it is called once, with that.
 */
final class DumpLogJob implements Jobs.Job {
    private final ByteArrayOutputStream out = new ByteArrayOutputStream();
    private final ByteArrayOutputStream err = new ByteArrayOutputStream();

    /** Made before Scala is loaded: its println keeps the stream that it finds then. */
    DumpLogJob() {
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((code, message) -> {
            throw new IllegalStateException("exit " + code + ": " + message);
        });
    }

    @Override
    public Object run(Map<String, Object> request) throws IOException {
        Path folder = Path.of((String) request.get("directory"));
        PrintStream messages = System.err;
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        try {
            if (request.get("decoder") instanceof String decoder)
                return dump(files(folder, ".log"), decoder);
            return Json.object(
                "deep_iteration", dump(files(folder, ".log", ".index", ".timeindex"), "--deep-iteration", "--print-data-log"),
                "verify_index_only", dump(files(folder, ".index", ".timeindex"), "--verify-index-only"),
                "index_sanity_check", dump(files(folder, ".index", ".timeindex"), "--index-sanity-check"));
        } finally {
            System.setErr(messages);
        }
    }

    private static List<String> files(Path folder, String... suffixes) throws IOException {
        List<String> files = new ArrayList<>();
        for (Path file : Logs.files(folder))
            for (String suffix : suffixes)
                if (file.toString().endsWith(suffix))
                    files.add(file.toString());
        return files;
    }

    private Map<String, Object> dump(List<String> files, String... options) {
        out.reset();
        err.reset();
        List<String> args = new ArrayList<>(List.of(options));
        args.addAll(List.of("--files", String.join(",", files)));
        Map<String, Object> answer = Json.object("files", files);
        try {
            kafka.tools.DumpLogSegments.main(args.toArray(String[]::new));
        } catch (Throwable thrown) {
            answer.put("error", thrown.toString());
        }
        answer.put("out", out.toString(StandardCharsets.UTF_8));
        answer.put("err", err.toString(StandardCharsets.UTF_8));
        return answer;
    }
}
