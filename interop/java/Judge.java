import java.io.IOException;

/**
 * Kafka's own classes on files and partition directories, without a broker; asked line by line as {@link Jobs} says:
 * {@code Judge}. What Kafka refuses is an answer like any other, with an "error" in it; an error of the whole request is one of
 * ours.
 */
public final class Judge {
    private Judge() {
    }

    public static void main(String[] args) throws IOException {
        new Jobs()
            .add("describe", new DescribeJob())
            .add("open_log", new OpenLogJob())
            .add("dump_log", new DumpLogJob())
            .add("play_steps", new PlayStepsJob())
            .add("golden", new GoldenJob())
            .add("partitions", new PartitionJob())
            .add("hash", new HashJob())
            .serve();
    }
}
