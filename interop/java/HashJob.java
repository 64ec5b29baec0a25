import org.apache.kafka.common.utils.Utils;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Answers to which partition "ids" belong, of groups or transactions: "hashes", the hash of each, and "partitions", for each of
 * "counts" a list with the partition of each. An id is a list of units of UTF-16, as a string of Java is.
 */
final class HashJob implements Jobs.Job {
    @Override
    @SuppressWarnings("unchecked")
    public Object run(Map<String, Object> request) {
        List<String> ids = new ArrayList<>();
        for (List<Number> units : (List<List<Number>>) request.get("ids")) {
            StringBuilder id = new StringBuilder();
            units.forEach(unit -> id.append((char) unit.intValue()));
            ids.add(id.toString());
        }
        List<List<Integer>> partitions = new ArrayList<>();
        for (Number count : (List<Number>) request.get("counts"))
            partitions.add(ids.stream().map(id -> Utils.abs(id.hashCode()) % count.intValue()).toList());
        return Json.object("hashes", ids.stream().map(String::hashCode).toList(), "partitions", partitions);
    }
}
