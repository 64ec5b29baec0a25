import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;

/**
 * Consumes "partition" of "topics" from beginning to end with an "isolation" ("read_committed" or "read_uncommitted"). Answers
 * for each with "start", "end", "records" and "times". A record is a list: offset, timestamp, type of it, leader epoch, key,
 * value, headers; bytes in base64. "times" has, for some timestamps of records and the ones behind them, for one before and one
 * behind all of them, and for Kafka's special value of the largest one, which offset and timestamp Kafka finds.
 */
final class ConsumeJob implements Jobs.Job {
    private static final int TIMES = 8;
    /** As a request spells it; only the admin client asks for it. */
    private static final long MAX_TIMESTAMP = -3;
    private final String bootstrap;

    ConsumeJob(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    @Override
    public Object run(Map<String, Object> request) throws Exception {
        // A fetch at the end of one topic is not to keep the next one waiting.
        Map<String, Object> config = Map.of("fetch.max.wait.ms", "10", "bootstrap.servers", bootstrap,
            "isolation.level", request.get("isolation"), "enable.auto.commit", "false", "auto.offset.reset", "none", "default.api.timeout.ms", "30000");
        ListOffsetsOptions options = new ListOffsetsOptions(
            IsolationLevel.valueOf(((String) request.get("isolation")).toUpperCase(Locale.ROOT)));
        Map<String, Object> answer = new LinkedHashMap<>();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
             KafkaConsumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            for (Object topic : (List<?>) request.get("topics")) {
                TopicPartition partition = new TopicPartition((String) topic, (int) Jobs.number(request, "partition"));
                Map<String, Object> consumed = consume(consumer, partition);
                @SuppressWarnings("unchecked")
                List<Object> times = (List<Object>) consumed.get("times");
                times.add(largest(admin, options, partition));
                answer.put((String) topic, consumed);
            }
        }
        return answer;
    }

    private static List<Object> largest(Admin admin, ListOffsetsOptions options, TopicPartition partition) throws Exception {
        ListOffsetsResultInfo found =
            admin.listOffsets(Map.of(partition, OffsetSpec.maxTimestamp()), options).partitionResult(partition).get();
        boolean isNone = found.offset() < 0;
        return Arrays.asList(MAX_TIMESTAMP, isNone ? null : found.offset(), isNone ? null : found.timestamp());
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
        return Arrays.asList(record.offset(), record.timestamp(), record.timestampType().toString(),
            record.leaderEpoch().orElse(null), base64(record.key()), base64(record.value()), headers);
    }

    private static List<Object> times(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, List<Long> timestamps) {
        Set<Long> wanted = new LinkedHashSet<>(List.of(0L, Long.MAX_VALUE));
        for (int at = 0; at < timestamps.size(); at += 1 + timestamps.size() / TIMES)
            if (timestamps.get(at) >= 0)
                wanted.addAll(List.of(timestamps.get(at), timestamps.get(at) + 1));
        List<Object> times = new ArrayList<>();
        for (long time : wanted) {
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, time)).get(partition);
            times.add(Arrays.asList(time, found == null ? null : found.offset(), found == null ? null : found.timestamp()));
        }
        return times;
    }

    private static String base64(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
