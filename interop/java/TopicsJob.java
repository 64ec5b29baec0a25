import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;

/**
 * Creates topics: "topics" maps names to settings, "partitions" says how many each has. Answers with the ids of the topics by
 * name, when all of them have a leader. Without topics it answers as soon as the broker does.
 */
final class TopicsJob implements Jobs.Job {
    private final String bootstrap;

    TopicsJob(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    @Override
    @SuppressWarnings("unchecked")
    public Object run(Map<String, Object> request) throws Exception {
        Map<String, Map<String, String>> topics = (Map<String, Map<String, String>>) request.get("topics");
        int partitions = (int) Jobs.number(request, "partitions");
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.describeCluster().nodes().get();
            List<NewTopic> wanted = new ArrayList<>();
            topics.forEach((name, settings) -> wanted.add(new NewTopic(name, partitions, (short) 1).configs(settings)));
            CreateTopicsResult created = admin.createTopics(wanted);
            Map<String, Object> ids = new TreeMap<>();
            for (String name : topics.keySet())
                ids.put(name, created.topicId(name).get().toString());
            while (!haveLeaders(admin, topics.keySet()))
                Thread.sleep(50);
            return ids;
        }
    }

    private static boolean haveLeaders(Admin admin, Iterable<String> names) throws Exception {
        for (String name : names) {
            KafkaFuture<Boolean> hasLeader = admin.describeTopics(List.of(name)).topicNameValues().get(name)
                .thenApply(topic -> topic.partitions().stream().map(TopicPartitionInfo::leader).allMatch(leader -> leader != null));
            try {
                if (!hasLeader.get())
                    return false;
            } catch (ExecutionException e) {
                if (e.getCause() instanceof UnknownTopicOrPartitionException)
                    return false;
                throw e;
            }
        }
        return true;
    }
}
