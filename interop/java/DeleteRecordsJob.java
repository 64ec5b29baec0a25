import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.common.TopicPartition;

import java.util.Map;

/** Deletes the records of "topic" before "offset". Answers where the log starts now. */
final class DeleteRecordsJob implements Jobs.Job {
    private final String bootstrap;

    DeleteRecordsJob(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    @Override
    public Object run(Map<String, Object> request) throws Exception {
        TopicPartition partition = new TopicPartition((String) request.get("topic"), 0);
        RecordsToDelete before = RecordsToDelete.beforeOffset(((Number) request.get("offset")).longValue());
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            return admin.deleteRecords(Map.of(partition, before)).lowWatermarks().get(partition).get().lowWatermark();
        }
    }
}
