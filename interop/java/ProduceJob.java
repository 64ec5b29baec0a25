import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArraySerializer;

import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;

/**
 * Produces. "producer" names a producer, which is kept for later requests, and is made with "config" when it is first named.
 * "batches" are lists of records; each list is sent as a whole before the next, so that it becomes one batch. A record is a
 * list: key, value, headers (name and value), timestamp; bytes in base64, null where there is nothing. They go to "partition" of
 * "topic".
 *
 * <p>"transaction" says what happens around them: "begin" opens a transaction before, "commit" and "abort" end it behind,
 * "begin-commit" and "begin-abort" do both. With "positions" of a "group", each a list of topic, partition, offset and metadata,
 * these are sent within it, behind the records. Answers with the offsets of the records, when the marker is written.
 */
final class ProduceJob implements Jobs.Job {
    private final String bootstrap;
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();

    ProduceJob(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    @Override
    @SuppressWarnings({"unchecked", "removal"}) // in 4.x there is no other way to make the metadata of a group without a member
    public Object run(Map<String, Object> request) throws Exception {
        Map<String, Object> config = (Map<String, Object>) request.get("config");
        String transaction = (String) request.getOrDefault("transaction", "");
        KafkaProducer<byte[], byte[]> producer = producers.get((String) request.get("producer"));
        if (producer == null) {
            producer = producer(bootstrap, config);
            producers.put((String) request.get("producer"), producer);
            if (config.containsKey("transactional.id"))
                producer.initTransactions();
        }
        if (transaction.startsWith("begin"))
            producer.beginTransaction();
        List<Long> offsets = new ArrayList<>();
        for (Object batch : (List<?>) request.get("batches")) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (Object record : (List<?>) batch)
                sent.add(producer.send(record(request, (List<?>) record)));
            producer.flush();
            for (Future<RecordMetadata> answer : sent)
                offsets.add(answer.get().offset());
        }
        if (request.containsKey("positions"))
            producer.sendOffsetsToTransaction(positions((List<?>) request.get("positions")),
                new ConsumerGroupMetadata((String) request.get("group")));
        if (transaction.endsWith("commit")) {
            producer.commitTransaction();
            waitForMarkers((String) config.get("transactional.id"), TransactionState.COMPLETE_COMMIT);
        }
        if (transaction.endsWith("abort")) {
            producer.abortTransaction();
            waitForMarkers((String) config.get("transactional.id"), TransactionState.COMPLETE_ABORT);
        }
        return offsets;
    }

    private static Map<TopicPartition, OffsetAndMetadata> positions(List<?> given) {
        Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
        for (Object position : given) {
            List<?> fields = (List<?>) position;
            positions.put(new TopicPartition((String) fields.get(0), ((Number) fields.get(1)).intValue()),
                new OffsetAndMetadata(((Number) fields.get(2)).longValue(), (String) fields.get(3)));
        }
        return positions;
    }

    /** The producer is told before the markers are written, and what is sent next could overtake them. */
    private void waitForMarkers(String transactionalId, TransactionState state) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            while (admin.describeTransactions(List.of(transactionalId)).description(transactionalId).get().state() != state)
                Thread.sleep(5);
        }
    }

    /** What is sent between two flushes is one batch, unless it is larger than a mebibyte. */
    static KafkaProducer<byte[], byte[]> producer(String bootstrap, Map<String, Object> config) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "linger.ms", "60000", "batch.size", "1048576",
            "max.block.ms", "30000", "enable.idempotence", "false", "acks", "all"));
        all.putAll(config);
        return new KafkaProducer<>(all, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static ProducerRecord<byte[], byte[]> record(Map<String, Object> request, List<?> fields) {
        RecordHeaders headers = new RecordHeaders();
        for (Object header : (List<?>) fields.get(2))
            headers.add((String) ((List<?>) header).get(0), bytes(((List<?>) header).get(1)));
        Number timestamp = (Number) fields.get(3);
        return new ProducerRecord<>((String) request.get("topic"), (int) Jobs.number(request, "partition"),
            timestamp == null ? null : timestamp.longValue(), bytes(fields.get(0)), bytes(fields.get(1)), headers);
    }

    private static byte[] bytes(Object base64) {
        return base64 == null ? null : Base64.getDecoder().decode((String) base64);
    }
}
