import java.io.IOException;

/**
 * Kafka's own clients, asked line by line as {@link Jobs} says: {@code Clients HOST:PORT}. All of it compiles against
 * kafka-clients alone (and Jackson), so that it runs with every version of Kafka.
 */
public final class Clients {
    private Clients() {
    }

    public static void main(String[] args) throws IOException {
        String bootstrap = args[0];
        new Jobs()
            .add("topics", new TopicsJob(bootstrap))
            .add("produce", new ProduceJob(bootstrap))
            .add("flood", new FloodJob(bootstrap))
            .add("consume", new ConsumeJob(bootstrap))
            .add("group", new GroupJob(bootstrap))
            .add("group_offsets", new GroupOffsetsJob(bootstrap))
            .add("member", new MemberJob(bootstrap))
            .add("transactions", new TransactionsJob(bootstrap))
            .add("tool", new ToolJob(bootstrap))
            .add("delete_records", new DeleteRecordsJob(bootstrap))
            .serve();
        // Producers with an open transaction would wait for a broker that may be gone.
        Runtime.getRuntime().halt(0);
    }
}
