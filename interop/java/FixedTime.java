import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;

import java.util.concurrent.Delayed;
import java.util.concurrent.FutureTask;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** A clock that stands until it is set, and a scheduler without threads: with both, a log's files repeat exactly. */
final class FixedTime implements Time {
    private long now;

    FixedTime(long now) {
        this.now = now;
    }

    void set(long value) {
        now = value;
    }

    @Override
    public long milliseconds() {
        return now;
    }

    @Override
    public long nanoseconds() {
        return TimeUnit.MILLISECONDS.toNanos(now);
    }

    @Override
    public void sleep(long ms) {
        now += ms;
    }

    @Override
    public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
        throw new UnsupportedOperationException("nothing here waits");
    }

    /** Runs at once what is due at once; never what is delayed or periodic (deletions, checkpoints). */
    static final class InlineScheduler implements Scheduler {
        @Override
        public void startup() {
        }

        @Override
        public void shutdown() {
        }

        @Override
        public void resizeThreadPool(int size) {
        }

        @Override
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            if (delayMs == 0 && periodMs <= 0)
                task.run();
            return new Handle(task);
        }
    }

    /** A log cancels its tasks when it closes, so it wants something it can cancel. */
    private static final class Handle extends FutureTask<Void> implements ScheduledFuture<Void> {
        Handle(Runnable task) {
            super(task, null);
        }

        @Override
        public long getDelay(TimeUnit unit) {
            return 0;
        }

        @Override
        public int compareTo(Delayed other) {
            return 0;
        }
    }
}
