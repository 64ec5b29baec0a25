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
 * Runs Kafka's dump tool over all segments of partition directories: {@code DumpLogs DIRECTORY...}, one line of JSON per
 * directory, with what the tool printed ("out", "err") for each of three ways to call it.
 */
public final class DumpLogs {
    private static final ByteArrayOutputStream OUT = new ByteArrayOutputStream();
    private static final ByteArrayOutputStream ERR = new ByteArrayOutputStream();

    private DumpLogs() {
    }

    public static void main(String[] args) throws IOException {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        // Before Scala is loaded: its println keeps the stream that it finds then.
        System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((code, message) -> {
            throw new IllegalStateException("exit " + code + ": " + message);
        });
        for (String name : args) {
            Path folder = Path.of(name);
            answers.println(Json.line(Json.object("directory", name,
                "deep_iteration", dump(files(folder, ".log", ".index", ".timeindex"), "--deep-iteration", "--print-data-log"),
                "verify_index_only", dump(files(folder, ".index", ".timeindex"), "--verify-index-only"),
                "index_sanity_check", dump(files(folder, ".index", ".timeindex"), "--index-sanity-check"))));
        }
        answers.flush();
    }

    private static List<String> files(Path folder, String... suffixes) throws IOException {
        List<String> files = new ArrayList<>();
        for (Path file : Logs.files(folder))
            for (String suffix : suffixes)
                if (file.toString().endsWith(suffix))
                    files.add(file.toString());
        return files;
    }

    private static Map<String, Object> dump(List<String> files, String... options) {
        OUT.reset();
        ERR.reset();
        List<String> args = new ArrayList<>(List.of(options));
        args.addAll(List.of("--files", String.join(",", files)));
        Map<String, Object> answer = Json.object("files", files);
        try {
            kafka.tools.DumpLogSegments.main(args.toArray(String[]::new));
        } catch (Throwable thrown) {
            answer.put("error", thrown.toString());
        }
        answer.put("out", OUT.toString(StandardCharsets.UTF_8));
        answer.put("err", ERR.toString(StandardCharsets.UTF_8));
        return answer;
    }
}
