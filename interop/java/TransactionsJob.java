import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.common.TopicPartition;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * What the broker knows of transactions. Answers with "transactions", by transactional id: "state", "producer_id",
 * "producer_epoch", "partitions" (as names); and with "open", for each of "partitions" (topic and number) a list of what is open
 * in it: producer id, epoch, first offset.
 */
final class TransactionsJob implements Jobs.Job {
    private final String bootstrap;

    TransactionsJob(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    @Override
    public Object run(Map<String, Object> request) throws Exception {
        Map<String, Object> transactions = new TreeMap<>();
        Map<String, Object> open = new TreeMap<>();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            for (TransactionListing listed : admin.listTransactions().all().get()) {
                String id = listed.transactionalId();
                TransactionDescription found = admin.describeTransactions(List.of(id)).description(id).get();
                transactions.put(id, Json.object("state", found.state().toString(), "producer_id", found.producerId(),
                    "producer_epoch", found.producerEpoch(),
                    "partitions", found.topicPartitions().stream().map(TopicPartition::toString).sorted().toList()));
            }
            for (Object wanted : (List<?>) request.get("partitions")) {
                List<?> place = (List<?>) wanted;
                TopicPartition partition = new TopicPartition((String) place.get(0), ((Number) place.get(1)).intValue());
                List<Object> found = new ArrayList<>();
                for (ProducerState state : admin.describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers())
                    if (state.currentTransactionStartOffset().isPresent())
                        found.add(Arrays.asList(state.producerId(), state.producerEpoch(), state.currentTransactionStartOffset().getAsLong()));
                open.put(partition.toString(), found);
            }
        }
        return Json.object("transactions", transactions, "open", open);
    }
}
