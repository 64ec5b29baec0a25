import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/**
 * Kafka's own {@link UnifiedLog} on the jobs of the Python benchmarks: {@code LogBench JOB NAME=VALUE...}.
 *
 * <p>It stays alive between two passes, so that it keeps warm while the other side has its turn. Each line on standard
 * input, {@code pass} or {@code check}, is answered by one line of JSON; the end of the input is the end of the program.
 * A pass times only the calls themselves: folders are made and removed while no clock runs. A check does the same work
 * untimed and leaves something to compare.
 *
 * <p>Options of every job: {@code folder}, a directory named topic-partition, and topic settings with their Kafka names.
 */
public final class LogBench {
    private LogBench() {
    }

    /** Does its work once for each call; what it answers is printed. */
    interface Job {
        Map<String, Object> run(boolean isCheck) throws Exception;

        /** Leaves the files as a log that was closed in order. */
        default void close() throws IOException {
        }
    }

    public static void main(String[] args) throws Exception {
        if (args.length < 2) {
            System.err.println("usage: LogBench append|make|fetch|time|open|clean|put|hit|miss folder=DIR NAME=VALUE...");
            System.exit(2);
        }
        Options options = new Options(args);
        // Daemon threads: the program ends when its input does, whatever is still scheduled.
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        Job job = switch (args[0]) {
            case "append" -> new LogAppendBench(options, scheduler);
            case "make" -> LogOpenBench.make(options);
            case "fetch" -> LogReadBench.fetch(options, scheduler);
            case "time" -> LogReadBench.offsetForTime(options, scheduler);
            case "open" -> new LogOpenBench(options, scheduler);
            case "clean" -> CleanBench.clean(options, scheduler);
            case "put", "hit", "miss" -> CleanBench.offsetMap(options, args[0]);
            default -> throw new IllegalArgumentException("unknown job " + args[0]);
        };
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String command = commands.readLine(); command != null; command = commands.readLine()) {
            Map<String, Object> answer = job.run(command.equals("check"));
            answer.put("kafka_version", AppInfoParser.getVersion());
            answer.put("java_version", System.getProperty("java.version"));
            System.out.println(Json.line(answer));
        }
        job.close();
        System.exit(0);
    }

    /** What stands behind the job's name. Names with a dot in them are Kafka's, for the log itself. */
    static final class Options {
        private final Map<String, String> values = new TreeMap<>();

        Options(String[] args) {
            for (String arg : Arrays.asList(args).subList(1, args.length)) {
                String[] pair = arg.split("=", 2);
                values.put(pair[0], pair[1]);
            }
        }

        String text(String name) {
            if (!values.containsKey(name))
                throw new IllegalArgumentException("option " + name + " is missing");
            return values.get(name);
        }

        int number(String name) {
            return Integer.parseInt(text(name));
        }

        boolean isSet(String name) {
            return Boolean.parseBoolean(values.getOrDefault(name, "false"));
        }

        Path folder() {
            return Path.of(text("folder"));
        }

        Map<String, String> logSettings() {
            Map<String, String> settings = new TreeMap<>(values);
            settings.keySet().removeIf(name -> !name.contains("."));
            return settings;
        }
    }

    /** A log as a broker opens it: system clock, real scheduler. */
    static UnifiedLog open(Path folder, Map<String, String> settings, KafkaScheduler scheduler, boolean isClean)
            throws IOException {
        return open(folder, new LogConfig(settings), scheduler, isClean);
    }

    static UnifiedLog open(Path folder, LogConfig config, Scheduler scheduler, boolean isClean) throws IOException {
        return UnifiedLog.create(folder.toFile(), config, 0, 0, scheduler, new BrokerTopicStats(), Time.SYSTEM, 900_000,
            new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1), isClean,
            Optional.empty());
    }

    /** Leaves the files as closing does, without an fsync of each: with ten thousand segments that takes a minute. */
    static void closeUnsynced(UnifiedLog log) throws IOException {
        log.activeSegment().onBecomeInactiveSegment();
        log.closeHandlers();
    }

    static void makeEmpty(Path folder) throws IOException {
        Utils.delete(folder.toFile());
        Files.createDirectories(folder);
    }

    /** On the heap, where a broker has what it received. */
    static ByteBuffer load(Path file) throws IOException {
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ)) {
            ByteBuffer buffer = ByteBuffer.allocate(Math.toIntExact(channel.size()));
            Utils.readFully(channel, buffer, 0);
            return buffer.flip();
        }
    }

    /** The median and the slowest of a hundred, of latencies in any order. */
    static Map<String, Object> latencies(long[] nanos) {
        Arrays.sort(nanos);
        return Json.object("count", nanos.length, "median_ns", nanos[nanos.length / 2], "p99_ns", nanos[nanos.length * 99 / 100]);
    }
}
