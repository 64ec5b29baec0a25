import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Consumes partition 0 of "topics" from beginning to end with an "isolation" ("read_committed" or "read_uncommitted"). Answers
 * for each with "start", "end", "records" and "times". A record is a list: offset, timestamp, type of it, key, value, headers;
 * bytes in base64. "times" has, for some timestamps of records and the ones behind them, the offset Kafka finds.
 */
final class ConsumeJob implements Clients.Job {
    private static final int TIMES = 8;
    private final String bootstrap;

    ConsumeJob(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    @Override
    public Object run(Map<String, Object> request) {
        // A fetch at the end of one topic is not to keep the next one waiting.
        Map<String, Object> config = Map.of("fetch.max.wait.ms", "10", "bootstrap.servers", bootstrap, "isolation.level", request.get("isolation"),
            "enable.auto.commit", "false", "auto.offset.reset", "none", "default.api.timeout.ms", "30000");
        Map<String, Object> answer = new LinkedHashMap<>();
        try (KafkaConsumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            for (Object topic : (List<?>) request.get("topics"))
                answer.put((String) topic, consume(consumer, new TopicPartition((String) topic, 0)));
        }
        return answer;
    }

    private static Map<String, Object> consume(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition) {
        List<TopicPartition> only = List.of(partition);
        consumer.assign(only);
        long start = consumer.beginningOffsets(only).get(partition);
        long end = consumer.endOffsets(only).get(partition);
        consumer.seek(partition, start);
        List<Object> records = new ArrayList<>();
        List<Long> timestamps = new ArrayList<>();
        // The position moves over markers and what compaction has left out, so it gets to the end.
        while (consumer.position(partition) < end)
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                records.add(describe(record));
                timestamps.add(record.timestamp());
            }
        return Json.object("start", start, "end", end, "records", records, "times", times(consumer, partition, timestamps));
    }

    private static List<Object> describe(ConsumerRecord<byte[], byte[]> record) {
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers())
            headers.add(Arrays.asList(header.key(), base64(header.value())));
        return Arrays.asList(record.offset(), record.timestamp(), record.timestampType().toString(), base64(record.key()),
            base64(record.value()), headers);
    }

    private static List<Object> times(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, List<Long> timestamps) {
        List<Object> times = new ArrayList<>();
        for (int at = 0; at < timestamps.size(); at += 1 + timestamps.size() / TIMES)
            for (long time = timestamps.get(at); time >= 0 && time <= timestamps.get(at) + 1; time++) {
                OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, time)).get(partition);
                times.add(Arrays.asList(time, found == null ? null : found.offset(), found == null ? null : found.timestamp()));
            }
        return times;
    }

    private static String base64(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
