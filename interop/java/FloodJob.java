import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Produces in the background, some records at a time, until it is stopped: for a broker that is killed meanwhile. "topics" maps
 * names to the settings of their producers, which send numbers as values, in transactions (three of four committed) if they have
 * a "transactional.id". A second request, with "stop", waits for them and answers with the highest acknowledged offsets.
 */
final class FloodJob implements Jobs.Job {
    private final String bootstrap;
    private final List<Thread> threads = new ArrayList<>();
    private final Map<String, AtomicLong> acknowledged = new TreeMap<>();
    private volatile boolean isStopped;

    FloodJob(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    @Override
    @SuppressWarnings("unchecked")
    public Object run(Map<String, Object> request) throws Exception {
        if (request.containsKey("stop")) {
            isStopped = true;
            for (Thread thread : threads)
                thread.join(10_000);
            Map<String, Long> answer = new TreeMap<>();
            acknowledged.forEach((topic, offset) -> answer.put(topic, offset.get()));
            return answer;
        }
        ((Map<String, Map<String, Object>>) request.get("topics")).forEach((topic, config) -> {
            acknowledged.put(topic, new AtomicLong(-1));
            threads.add(new Thread(() -> flood(topic, config)));
        });
        threads.forEach(Thread::start);
        return threads.size();
    }

    private void flood(String topic, Map<String, Object> config) {
        Map<String, Object> settings = new HashMap<>(config);
        // A few records a batch; and whoever loses the broker gives up soon.
        settings.putAll(Map.of("linger.ms", "1", "delivery.timeout.ms", "2000", "request.timeout.ms", "1500", "max.block.ms", "1500"));
        boolean isTransactional = settings.containsKey("transactional.id");
        AtomicLong highest = acknowledged.get(topic);
        AtomicInteger underWay = new AtomicInteger();
        KafkaProducer<byte[], byte[]> producer = ProduceJob.producer(bootstrap, settings);
        try {
            if (isTransactional)
                producer.initTransactions();
            for (int number = 0; !isStopped; number++) {
                if (isTransactional && number % 20 == 0)
                    producer.beginTransaction();
                while (!isStopped && (underWay.get() > 50 || number % 10 == 0 && underWay.get() > 0))
                    Thread.sleep(1);
                byte[] value = ("number " + number).getBytes(StandardCharsets.UTF_8);
                underWay.incrementAndGet();
                producer.send(new ProducerRecord<>(topic, 0, null, ("key " + number % 7).getBytes(StandardCharsets.UTF_8), value),
                    (metadata, thrown) -> {
                        underWay.decrementAndGet();
                        if (thrown == null)
                            highest.accumulateAndGet(metadata.offset(), Math::max);
                    });
                if (isTransactional && number % 20 == 19) {
                    if (number % 80 == 79)
                        producer.abortTransaction();
                    else
                        producer.commitTransaction();
                }
            }
        } catch (Exception e) {
            // The broker is gone, which is what this is for; what was acknowledged counts.
        } finally {
            producer.close(Duration.ZERO);
        }
    }
}
