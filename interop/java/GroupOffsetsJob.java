import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * The positions of "groups", as the broker tells an admin client. Answers by group with a list of positions, each a list: topic,
 * partition, offset, leader epoch or null, metadata.
 */
final class GroupOffsetsJob implements Jobs.Job {
    private final String bootstrap;

    GroupOffsetsJob(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    @Override
    public Object run(Map<String, Object> request) throws Exception {
        Map<String, Object> answer = new TreeMap<>();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            for (Object group : (List<?>) request.get("groups")) {
                List<Object> positions = new ArrayList<>();
                Map<TopicPartition, OffsetAndMetadata> found =
                    admin.listConsumerGroupOffsets((String) group).partitionsToOffsetAndMetadata().get();
                found.forEach((partition, position) -> positions.add(Arrays.asList(partition.topic(), partition.partition(),
                    position.offset(), position.leaderEpoch().orElse(null), position.metadata())));
                answer.put((String) group, positions);
            }
        }
        return answer;
    }
}
