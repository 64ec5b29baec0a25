import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Kafka's own clients, asked line by line: {@code Clients HOST:PORT}. A request is one line of JSON on standard input with a
 * "job" and its fields, the answer one line on standard output: what the job says, or "error" with what Kafka threw. The
 * program ends with its input.
 *
 * <p>A job is a class of its own, with its fields described there. All of it compiles against kafka-clients alone (and
 * Jackson), so that it runs with every version of Kafka.
 */
public final class Clients {
    /** One kind of request. */
    interface Job {
        Object run(Map<String, Object> request) throws Exception;
    }

    private Clients() {
    }

    public static void main(String[] args) throws IOException {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        ObjectMapper json = new ObjectMapper();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<String, Job> jobs = jobs(args[0]);
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            Map<String, Object> request = json.readValue(line, new TypeReference<>() { });
            answers.println(Json.line(answer(jobs.get((String) request.get("job")), request)));
        }
        // Producers with an open transaction would wait for a broker that may be gone.
        Runtime.getRuntime().halt(0);
    }

    private static Map<String, Job> jobs(String bootstrap) {
        Map<String, Job> jobs = new LinkedHashMap<>();
        jobs.put("topics", new TopicsJob(bootstrap));
        jobs.put("produce", new ProduceJob(bootstrap));
        jobs.put("flood", new FloodJob(bootstrap));
        jobs.put("consume", new ConsumeJob(bootstrap));
        jobs.put("group", new GroupJob(bootstrap));
        jobs.put("delete_records", new DeleteRecordsJob(bootstrap));
        return jobs;
    }

    private static Object answer(Job job, Map<String, Object> request) {
        try {
            return Json.object("answer", job.run(request));
        } catch (Throwable thrown) {
            StringWriter trace = new StringWriter();
            thrown.printStackTrace(new PrintWriter(trace));
            return Json.object("error", trace.toString());
        }
    }
}
