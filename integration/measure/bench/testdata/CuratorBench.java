import java.io.BufferedReader;
import java.io.Closeable;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.PromotedToLock;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.RetryNTimes;
import org.apache.curator.retry.RetryOneTime;

/**
 * Does one piece of work for every line of input, "work address clients milliseconds", and prints how many sections it ran per
 * second. The address is the index of a server among the arguments. Every client has its own session and thread. In the work
 * "shared", the threads share one session.
 */
public class CuratorBench {
    interface Section {
        void run(int turn) throws Exception;
    }

    static Section section(String work, CuratorFramework client, int number, List<Closeable> toClose) {
        switch (work) {
            case "lock":
            case "mutex":
            case "shared": {
                String path = "/bench/curator/" + (work.equals("lock") ? "lock-of-" + number : work);
                InterProcessMutex mutex = new InterProcessMutex(client, path);
                return turn -> {
                    mutex.acquire();
                    mutex.release();
                };
            }
            case "rwlock": {
                InterProcessReadWriteLock lock = new InterProcessReadWriteLock(client, "/bench/curator/rwlock");
                return turn -> {
                    InterProcessMutex side = turn % 10 == 0 ? lock.writeLock() : lock.readLock();
                    side.acquire();
                    side.release();
                };
            }
            case "semaphore": {
                InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, "/bench/curator/semaphore", 4);
                return turn -> {
                    Lease lease = semaphore.acquire();
                    lease.close();
                };
            }
            case "election": {
                Semaphore terms = new Semaphore(0);
                LeaderSelector selector = new LeaderSelector(client, "/bench/curator/election", new LeaderSelectorListenerAdapter() {
                    public void takeLeadership(CuratorFramework client) {
                        terms.release();
                    }
                });
                selector.autoRequeue(); // campaigns again after each term, until it is closed
                selector.start();
                toClose.add(selector);
                return turn -> terms.acquire();
            }
            case "counter":
            case "promoted": {
                RetryNTimes always = new RetryNTimes(100_000, 0);
                // The lock's path and its retries. As Curator advises, the counter itself tries once before it acquires the lock.
                PromotedToLock lock = PromotedToLock.builder().lockPath("/bench/curator/counter-lock").retryPolicy(always).build();
                DistributedAtomicLong counter = work.equals("counter")
                        ? new DistributedAtomicLong(client, "/bench/curator/counter", always)
                        : new DistributedAtomicLong(client, "/bench/curator/promoted", new RetryNTimes(1, 0), lock);
                return turn -> {
                    if (!counter.increment().succeeded()) {
                        throw new IllegalStateException("gave up");
                    }
                };
            }
            default:
                throw new IllegalArgumentException(work);
        }
    }

    public static void main(String[] args) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, failure) -> {
            failure.printStackTrace();
            Runtime.getRuntime().halt(1); // the threads of Curator would keep the process alive
        });
        List<List<CuratorFramework>> all = new ArrayList<>();
        for (int i = 0; i < args.length; i++) {
            all.add(new ArrayList<>());
        }
        ExecutorService threads = Executors.newCachedThreadPool();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            int address = Integer.parseInt(words[1]);
            List<CuratorFramework> clients = all.get(address);
            while (clients.size() < Integer.parseInt(words[2])) {
                CuratorFramework client = CuratorFrameworkFactory.newClient(args[address], 15_000, 15_000, new RetryOneTime(100));
                client.start();
                client.blockUntilConnected();
                clients.add(client);
            }
            long start = System.nanoTime();
            long end = start + TimeUnit.MILLISECONDS.toNanos(Long.parseLong(words[3]));
            List<Future<Integer>> counts = new ArrayList<>();
            List<Closeable> toClose = new ArrayList<>();
            for (int i = 0; i < Integer.parseInt(words[2]); i++) {
                int number = i;
                Section section = section(words[0], clients.get(words[0].equals("shared") ? 0 : i), i, toClose);
                counts.add(threads.submit(() -> {
                    int done = 0;
                    for (int turn = number; System.nanoTime() < end; turn++) {
                        section.run(turn);
                        done++;
                    }
                    return done;
                }));
            }
            int total = 0;
            for (Future<Integer> count : counts) {
                total += count.get();
            }
            double rate = total / ((System.nanoTime() - start) / 1e9);
            for (Closeable one : toClose) {
                one.close();
            }
            System.out.println(rate);
        }
        threads.shutdown();
        for (List<CuratorFramework> clients : all) {
            for (CuratorFramework client : clients) {
                client.close();
            }
        }
    }
}
