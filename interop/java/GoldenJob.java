import java.nio.file.Path;
import java.util.Map;

/** Writes the golden files into the folder "into", as {@link Golden} does from the command line. Answers nothing. */
final class GoldenJob implements Jobs.Job {
    @Override
    public Object run(Map<String, Object> request) throws Exception {
        Golden.write(Path.of((String) request.get("into")));
        return null;
    }
}
