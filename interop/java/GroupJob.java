import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

import java.time.Duration;
import java.util.List;
import java.util.Map;

/**
 * A consumer "group" that subscribes to a "topic", reads something, commits "offset" with "metadata" and leaves. Answers with
 * what is committed.
 */
final class GroupJob implements Jobs.Job {
    private final String bootstrap;

    GroupJob(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    @Override
    public Object run(Map<String, Object> request) {
        TopicPartition partition = new TopicPartition((String) request.get("topic"), 0);
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "group.id", request.get("group"),
            "enable.auto.commit", "false", "auto.offset.reset", "earliest");
        try (KafkaConsumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(partition.topic()));
            while (consumer.poll(Duration.ofMillis(200)).isEmpty()) {
                // the first polls join the group
            }
            long offset = ((Number) request.get("offset")).longValue();
            consumer.commitSync(Map.of(partition, new OffsetAndMetadata(offset, (String) request.get("metadata"))));
            return consumer.committed(java.util.Set.of(partition)).get(partition).offset();
        }
    }
}
