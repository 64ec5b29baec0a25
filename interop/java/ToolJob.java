import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Runs one of Kafka's command line tools: "main_class" is its main class, "arguments" what a shell would give it, but for the address
 * of the broker, which comes first. Answers with what it prints. A tool that refuses its arguments ends the whole program.
 */
final class ToolJob implements Jobs.Job {
    private final String bootstrap;

    ToolJob(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    @Override
    public Object run(Map<String, Object> request) throws Exception {
        List<String> arguments = new ArrayList<>(List.of("--bootstrap-server", bootstrap));
        for (Object argument : (List<?>) request.get("arguments"))
            arguments.add((String) argument);
        PrintStream before = System.out;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        try {
            // By name: the tools are no part of what the other jobs compile against.
            Class.forName((String) request.get("main_class")).getMethod("main", String[].class)
                .invoke(null, (Object) arguments.toArray(String[]::new));
        } finally {
            System.setOut(before);
        }
        return printed.toString(StandardCharsets.UTF_8);
    }
}
