import kafka.tools.StorageTool;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;

/**
 * Runs a broker: {@code RunBroker SERVER.PROPERTIES CLUSTER_ID}. Its log directory is formatted first if that is still to
 * be done, in the same JVM, since starting one takes longer than formatting.
 *
 * <p>The broker ends when its standard input does: whoever started it holds the other end, so it cannot be left behind.
 */
public final class RunBroker {
    private RunBroker() {
    }

    public static void main(String[] args) throws IOException {
        endWithStandardInput();
        Properties settings = new Properties();
        try (InputStream file = Files.newInputStream(Path.of(args[0]))) {
            settings.load(file);
        }
        if (!Files.exists(Path.of(settings.getProperty("log.dirs"), "meta.properties"))) {
            int status = StorageTool.execute(new String[] {"format", "-t", args[1], "-c", args[0]}, System.out);
            if (status != 0)
                System.exit(status);
        }
        kafka.Kafka.main(new String[] {args[0]});
    }

    private static void endWithStandardInput() {
        Thread watcher = new Thread(() -> {
            try {
                System.in.transferTo(java.io.OutputStream.nullOutputStream());
            } catch (IOException e) {
                // as good as its end
            }
            Runtime.getRuntime().halt(3);
        }, "end-with-standard-input");
        watcher.setDaemon(true);
        watcher.start();
    }
}
