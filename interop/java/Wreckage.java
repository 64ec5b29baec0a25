import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/** Files that real logs left behind: as they were when the process died, and as they are after a clean stop. */
record Wreckage(Path crashed, Path stopped, Map<String, String> config) {
    /** What a case writes into the log before it is left behind. */
    interface Writing {
        void write(UnifiedLog log, FixedTime time) throws Exception;
    }

    static Wreckage of(Map<String, String> config, Writing writing) throws Exception {
        Path temporary = Files.createTempDirectory("golden");
        Path folder = Files.createDirectory(temporary.resolve(Logs.FOLDER));
        FixedTime time = new FixedTime(Golden.T);
        UnifiedLog log = Logs.open(folder, config, time, 0, 0, true);
        writing.write(log, time);
        Logs.copy(folder, temporary.resolve("crashed"));
        log.close();
        Logs.copy(folder, temporary.resolve("stopped"));
        return new Wreckage(temporary.resolve("crashed"), temporary.resolve("stopped"), config);
    }

    Scene crash(Golden golden, String name, String about) throws IOException {
        return new Scene(golden, name, about, config, crashed);
    }

    Scene stop(Golden golden, String name, String about) throws IOException {
        return new Scene(golden, name, about, config, stopped);
    }

    void clear() throws IOException {
        Utils.delete(crashed.getParent().toFile());
    }
}
