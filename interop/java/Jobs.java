import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/**
 * A program that is asked line by line. A request is one line of JSON on standard input with a "job" and its fields, the answer
 * one line on standard output: {"answer": what the job says}, or {"error": the trace of what was thrown}. The program ends with
 * its input.
 *
 * <p>A job is a class of its own, with its fields described there. This one compiles against Jackson alone, so that it runs
 * with every version of Kafka.
 */
final class Jobs {
    /** One kind of request. */
    interface Job {
        Object run(Map<String, Object> request) throws Exception;
    }

    private final PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private final Map<String, Job> jobs = new HashMap<>();

    /** From here on, what anybody prints goes to standard error: nothing gets between the answers. */
    Jobs() {
        System.setOut(System.err);
    }

    Jobs add(String name, Job job) {
        jobs.put(name, job);
        return this;
    }

    /** Answers until there are no more requests. */
    void serve() throws IOException {
        ObjectMapper json = new ObjectMapper();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            Map<String, Object> request = json.readValue(line, new TypeReference<>() { });
            answers.println(Json.line(answer(request)));
        }
    }

    private Map<String, Object> answer(Map<String, Object> request) {
        try {
            Job job = jobs.get((String) request.get("job"));
            if (job == null)
                throw new IllegalArgumentException("no such job: " + request.get("job"));
            return Json.object("answer", job.run(request));
        } catch (Throwable thrown) {
            return Json.object("error", trace(thrown));
        }
    }

    static String trace(Throwable thrown) {
        StringWriter trace = new StringWriter();
        thrown.printStackTrace(new PrintWriter(trace));
        return trace.toString();
    }

    static long number(Map<String, Object> object, String name) {
        return ((Number) object.get(name)).longValue();
    }

    /** The field "config". */
    @SuppressWarnings("unchecked")
    static Map<String, String> config(Map<String, Object> object) {
        return (Map<String, String>) object.get("config");
    }
}
