import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.utils.Utils;

import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;

/**
 * Answers where a producer puts records with "keys" (in Base64): "murmur2", the hash of each as a signed int, and "partitions",
 * for each of "counts" a list with the partition of each key.
 */
final class PartitionJob implements Jobs.Job {
    @Override
    @SuppressWarnings("unchecked")
    public Object run(Map<String, Object> request) {
        List<byte[]> keys = new ArrayList<>();
        for (String key : (List<String>) request.get("keys"))
            keys.add(Base64.getDecoder().decode(key));
        List<Integer> hashes = new ArrayList<>();
        for (byte[] key : keys)
            hashes.add(Utils.murmur2(key));
        List<List<Integer>> partitions = new ArrayList<>();
        for (Number count : (List<Number>) request.get("counts")) {
            List<Integer> places = new ArrayList<>();
            for (byte[] key : keys)
                places.add(BuiltInPartitioner.partitionForKey(key, count.intValue()));
            partitions.add(places);
        }
        return Json.object("murmur2", hashes, "partitions", partitions);
    }
}
