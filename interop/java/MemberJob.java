import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * A member of a "group" that subscribes to "topics" with "config", reads from the group's positions to the ends of all partitions,
 * "commits" if it is to, and leaves; with "stays" it is kept, and leaves with the next request of the same group. Answers with
 * the records in the order in which they came, each a list: topic, partition, offset, value in base64.
 */
final class MemberJob implements Jobs.Job {
    private final String bootstrap;
    private final Map<String, KafkaConsumer<byte[], byte[]>> members = new HashMap<>();

    MemberJob(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    @Override
    @SuppressWarnings("unchecked")
    public Object run(Map<String, Object> request) {
        String group = (String) request.get("group");
        KafkaConsumer<byte[], byte[]> former = members.remove(group);
        if (former != null)
            former.close();
        List<String> topics = (List<String>) request.get("topics");
        if (topics.isEmpty())
            return List.of();
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "group.id", group,
            "enable.auto.commit", "false", "auto.offset.reset", "earliest", "isolation.level", "read_committed", "fetch.max.wait.ms", "10"));
        config.putAll((Map<String, Object>) request.get("config"));
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        members.put(group, consumer);
        List<Object> records = read(consumer, topics);
        if ((boolean) request.get("commits"))
            consumer.commitSync();
        if (!(boolean) request.get("stays"))
            members.remove(group).close();
        return records;
    }

    private static List<Object> read(KafkaConsumer<byte[], byte[]> consumer, List<String> topics) {
        consumer.subscribe(topics);
        Set<TopicPartition> wanted = new HashSet<>();
        for (String topic : topics)
            consumer.partitionsFor(topic).forEach(info -> wanted.add(new TopicPartition(topic, info.partition())));
        Map<TopicPartition, Long> ends = consumer.endOffsets(wanted);
        List<Object> records = new ArrayList<>();
        do {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100)))
                records.add(Arrays.asList(record.topic(), record.partition(), record.offset(),
                    Base64.getEncoder().encodeToString(record.value())));
        } while (!consumer.assignment().containsAll(wanted)
            || wanted.stream().anyMatch(partition -> consumer.position(partition) < ends.get(partition)));
        return records;
    }
}
