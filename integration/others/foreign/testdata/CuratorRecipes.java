import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.retry.RetryOneTime;

/** Runs Curator's recipes against the server given on the command line, and fails at the first that misbehaves. */
public class CuratorRecipes {
    static final int LIMIT = 20; // in seconds, of any wait
    static String servers;

    interface Body {
        void run(CuratorFramework client, int number) throws Exception;
    }

    static CuratorFramework connect() throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(servers, 10_000, 10_000, new RetryOneTime(100));
        client.start();
        check(client.blockUntilConnected(LIMIT, TimeUnit.SECONDS), "not connected");
        return client;
    }

    static void check(boolean ok, String otherwise) {
        if (!ok) {
            throw new IllegalStateException(otherwise);
        }
    }

    /** Runs the body in n threads with clients of their own. */
    static void together(int n, Body body) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(n);
        List<Future<Void>> ends = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            int number = i;
            ends.add(threads.submit((Callable<Void>) () -> {
                try (CuratorFramework client = connect()) {
                    body.run(client, number);
                }
                return null;
            }));
        }
        for (Future<Void> end : ends) {
            end.get(3 * LIMIT, TimeUnit.SECONDS);
        }
        threads.shutdown();
    }

    static void mutex() throws Exception {
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger sections = new AtomicInteger();
        together(4, (client, i) -> {
            InterProcessMutex mutex = new InterProcessMutex(client, "/mutex");
            for (int k = 0; k < 10; k++) {
                check(mutex.acquire(LIMIT, TimeUnit.SECONDS), "no lock");
                check(mutex.acquire(LIMIT, TimeUnit.SECONDS), "not reentrant");
                check(inside.incrementAndGet() == 1, "two hold the mutex");
                sections.incrementAndGet();
                inside.decrementAndGet();
                mutex.release();
                mutex.release();
            }
        });
        check(sections.get() == 40, "sections " + sections);
        try (CuratorFramework one = connect(); CuratorFramework other = connect()) {
            InterProcessMutex held = new InterProcessMutex(one, "/mutex");
            InterProcessMutex wanted = new InterProcessMutex(other, "/mutex");
            held.acquire();
            check(!wanted.acquire(200, TimeUnit.MILLISECONDS), "two hold the mutex");
            check(held.getParticipantNodes().size() == 1, "the loser left a node");
            one.close(); // ends the session
            check(wanted.acquire(LIMIT, TimeUnit.SECONDS), "not freed by the end of the session");
            wanted.release();
        }
    }

    static void revocation() throws Exception {
        try (CuratorFramework one = connect(); CuratorFramework other = connect()) {
            InterProcessMutex held = new InterProcessMutex(one, "/revoked");
            CountDownLatch asked = new CountDownLatch(1);
            held.makeRevocable(m -> asked.countDown());
            held.acquire();
            InterProcessMutex wanted = new InterProcessMutex(other, "/revoked");
            org.apache.curator.framework.recipes.locks.Revoker.attemptRevoke(other, wanted.getParticipantNodes().iterator().next());
            check(asked.await(LIMIT, TimeUnit.SECONDS), "not asked");
            held.release();
        }
    }

    static void readWriteLock() throws Exception {
        try (CuratorFramework a = connect(); CuratorFramework b = connect(); CuratorFramework c = connect()) {
            InterProcessReadWriteLock one = new InterProcessReadWriteLock(a, "/rw");
            InterProcessReadWriteLock two = new InterProcessReadWriteLock(b, "/rw");
            InterProcessReadWriteLock three = new InterProcessReadWriteLock(c, "/rw");
            check(one.readLock().acquire(LIMIT, TimeUnit.SECONDS), "no first reader");
            check(two.readLock().acquire(LIMIT, TimeUnit.SECONDS), "no second reader");
            check(!three.writeLock().acquire(200, TimeUnit.MILLISECONDS), "writer among readers");
            one.readLock().release();
            two.readLock().release();
            check(three.writeLock().acquire(LIMIT, TimeUnit.SECONDS), "no writer");
            check(!one.readLock().acquire(200, TimeUnit.MILLISECONDS), "reader beside the writer");
            check(three.readLock().acquire(LIMIT, TimeUnit.SECONDS), "no downgrade");
            three.writeLock().release();
            check(one.readLock().acquire(LIMIT, TimeUnit.SECONDS), "no reader after the downgrade");
            one.readLock().release();
            three.readLock().release();
        }
    }

    static void semaphore() throws Exception {
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        together(4, (client, i) -> {
            InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, "/semaphore", 2);
            for (int k = 0; k < 5; k++) {
                Lease lease = semaphore.acquire(LIMIT, TimeUnit.SECONDS);
                check(lease != null, "no lease");
                most.accumulateAndGet(inside.incrementAndGet(), Math::max);
                Thread.sleep(2);
                inside.decrementAndGet();
                semaphore.returnLease(lease);
            }
        });
        check(most.get() <= 2, "more than two leases: " + most);
        try (CuratorFramework client = connect(); SharedCount count = new SharedCount(client, "/limit", 3)) {
            count.start();
            InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, "/counted", count);
            Collection<Lease> leases = semaphore.acquire(3, LIMIT, TimeUnit.SECONDS);
            check(leases != null && leases.size() == 3, "no three leases");
            check(semaphore.acquire(200, TimeUnit.MILLISECONDS) == null, "a fourth of three");
            semaphore.returnAll(leases);
            InterProcessSemaphoreMutex one = new InterProcessSemaphoreMutex(client, "/one");
            check(one.acquire(LIMIT, TimeUnit.SECONDS), "no semaphore mutex");
            one.release();
        }
    }

    static void leaderLatch() throws Exception {
        AtomicInteger leaders = new AtomicInteger();
        CyclicBarrier all = new CyclicBarrier(3);
        together(3, (client, i) -> {
            LeaderLatch latch = new LeaderLatch(client, "/latch", "candidate" + i);
            latch.start();
            while (latch.getParticipants().size() < 3) {
                Thread.sleep(5);
            }
            all.await(LIMIT, TimeUnit.SECONDS);
            check(latch.await(LIMIT, TimeUnit.SECONDS), "never leads");
            check(leaders.incrementAndGet() == 1, "two lead");
            check(latch.getLeader().getId().equals("candidate" + i), "another is said to lead");
            leaders.decrementAndGet();
            latch.close();
        });
    }

    static void leaderSelector() throws Exception {
        AtomicInteger leaders = new AtomicInteger();
        AtomicInteger terms = new AtomicInteger();
        together(3, (client, i) -> {
            CountDownLatch twice = new CountDownLatch(2);
            LeaderSelector selector = new LeaderSelector(client, "/selector", new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework c) throws Exception {
                    check(leaders.incrementAndGet() == 1, "two lead");
                    terms.incrementAndGet();
                    leaders.decrementAndGet();
                    twice.countDown();
                }
            });
            selector.setId("candidate" + i);
            selector.autoRequeue();
            selector.start();
            check(twice.await(LIMIT, TimeUnit.SECONDS), "does not lead twice");
            selector.close();
        });
        check(terms.get() >= 6, "terms " + terms);
    }

    static void cache() throws Exception {
        try (CuratorFramework client = connect(); CuratorFramework other = connect()) {
            CountDownLatch seen = new CountDownLatch(4); // /cache, a created, changed, deleted
            CuratorCache cache = CuratorCache.build(client, "/cache");
            cache.listenable().addListener((type, before, after) -> seen.countDown());
            cache.start();
            other.create().creatingParentsIfNeeded().forPath("/cache/a", new byte[] {1});
            while (!cache.get("/cache/a").isPresent()) {
                Thread.sleep(5);
            }
            other.setData().forPath("/cache/a", new byte[] {2});
            while (cache.get("/cache/a").get().getData()[0] != 2) {
                Thread.sleep(5);
            }
            other.delete().guaranteed().forPath("/cache/a");
            check(seen.await(LIMIT, TimeUnit.SECONDS), "cache misses " + seen.getCount() + " changes");
            cache.close();
        }
    }

    interface Test {
        void run() throws Exception;
    }

    static void test(String name, Test test) throws Exception {
        test.run();
        System.out.println(name + " ok");
    }

    public static void main(String[] args) throws Exception {
        servers = args[0];
        test("mutex", CuratorRecipes::mutex);
        test("revocation", CuratorRecipes::revocation);
        test("read-write lock", CuratorRecipes::readWriteLock);
        test("semaphore", CuratorRecipes::semaphore);
        test("leader latch", CuratorRecipes::leaderLatch);
        test("leader selector", CuratorRecipes::leaderSelector);
        test("cache", CuratorRecipes::cache);
        System.out.println("all passed");
        System.exit(0); // threads of Curator's own may linger
    }
}
