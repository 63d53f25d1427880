import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.imps.ProtectedUtils;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicInteger;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicNumber;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedValue;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;

/**
 * Curator behind a line protocol: a request is "tag word arguments", its answer "tag ok result" or "tag error text", in
 * the order in which they are ready. "- revoked name" reports that the release of a lock was requested, "+ {json}" is an
 * event of a loop.
 *
 *   take name kind path arg            waits until name holds
 *   give name                          releases
 *   downgrade name                     makes a holder of kind "downgradable" a reader
 *   who kind path arg                  the participants as Curator lists them
 *   revoke node                        requests the release of the node
 *   count path n                       sets a SharedCount
 *   add kind path delta times          adds to a counter, and returns the value; kind is long, integer or count
 *   text path old new                  replaces a SharedValue if it has the old value, and returns whether it had
 *   protect path text                  creates an ephemeral sequential node with protection, and returns its path
 *   protected path                     the protected nodes below the path without their ids, and their data
 *   compress path text                 creates a compressed node
 *   decompress path                    the data of such a node
 *   barrier path set|remove|wait       calls that method of a DistributedBarrier
 *   join name path id payload          makes name a GroupMember
 *   payload name payload               replaces its payload
 *   members name                       the members as it sees them: id=payload
 *   leave name                         closes it
 *   keep name path data                makes name a PersistentNode that is ephemeral
 *   kept name                          waits until it has been created, and returns its path and data as it knows them
 *   drop name                          closes it
 *   follow name path                   makes name a CuratorCache
 *   cached name                        its content: path=version:data
 *   told name                          the events its listener got since the last request
 *   unfollow name                      closes it
 *   scribble path seed n               n random writes below the path
 *   session                            the session of the process, in hex
 *   loop name kind path arg n socket   n sections that add to a set of the resource server at socket
 */
public final class Peer {
    interface Lock {
        void take() throws Exception;

        void give() throws Exception;

        default Collection<String> who() throws Exception {
            throw new UnsupportedOperationException();
        }
    }

    static CuratorFramework client;
    static final Map<String, ExecutorService> threads = new ConcurrentHashMap<>();
    static final Map<String, Lock> locks = new ConcurrentHashMap<>();
    static final Map<String, GroupMember> members = new ConcurrentHashMap<>();
    static final Map<String, PersistentNode> nodes = new ConcurrentHashMap<>();
    static final Map<String, CuratorCache> caches = new ConcurrentHashMap<>();
    static final Map<String, Queue<String>> told = new ConcurrentHashMap<>();

    public static void main(String[] args) throws Exception {
        client = CuratorFrameworkFactory.newClient(args[0], Integer.parseInt(args[1]), 5000, new ExponentialBackoffRetry(50, 5));
        client.start();
        client.blockUntilConnected();
        say("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            String[] request = line.split(" ");
            // Curator's locks belong to the thread that acquired them, so each name has one.
            String thread = request[1].matches("take|give|downgrade|loop|scribble") ? request[2] : request[request.length - 1].equals("wait") ? "wait" : "";
            threads.computeIfAbsent(thread, x -> Executors.newSingleThreadExecutor()).execute(() -> answer(request));
        }
        Runtime.getRuntime().halt(0);
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static void answer(String[] q) {
        try {
            say(q[0] + " ok " + execute(q));
        } catch (Throwable e) {
            say(q[0] + " error " + e);
        }
    }

    static String execute(String[] q) throws Exception {
        switch (q[1]) {
            case "take":
                Lock lock = lock(q[2], q[3], q[4], q[5]);
                lock.take();
                locks.put(q[2], lock);
                return "";
            case "give":
                locks.remove(q[2]).give();
                return "";
            case "downgrade":
                ((Downgradable) locks.get(q[2])).downgrade();
                return "";
            case "who":
                return String.join(" ", lock("", q[2], q[3], q[4]).who());
            case "revoke":
                Revoker.attemptRevoke(client, q[2]);
                return "";
            case "count":
                try (SharedCount count = new SharedCount(client, q[2], 1)) {
                    count.start();
                    count.setCount(Integer.parseInt(q[3]));
                }
                return "";
            case "add":
                return String.valueOf(add(q[2], q[3], Integer.parseInt(q[4]), Integer.parseInt(q[5])));
            case "barrier":
                DistributedBarrier barrier = new DistributedBarrier(client, q[2]);
                switch (q[3]) {
                    case "set":
                        barrier.setBarrier();
                        return "";
                    case "remove":
                        barrier.removeBarrier();
                        return "";
                    default:
                        barrier.waitOnBarrier();
                        return "";
                }
            case "text":
                try (SharedValue value = new SharedValue(client, q[2], new byte[0])) {
                    value.start();
                    VersionedValue<byte[]> now = value.getVersionedValue();
                    return String.valueOf(new String(now.getValue(), StandardCharsets.UTF_8).equals(q[3])
                            && value.trySetValue(now, q[4].getBytes(StandardCharsets.UTF_8)));
                }
            case "protect":
                return client.create().withProtection().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath(q[2], q[3].getBytes(StandardCharsets.UTF_8));
            case "protected":
                StringBuilder found = new StringBuilder();
                for (String name : client.getChildren().forPath(q[2]).stream().sorted(Comparator.comparing(ProtectedUtils::normalize)).toList()) {
                    if (ProtectedUtils.isProtectedZNode(name)) {
                        found.append(ProtectedUtils.normalize(name)).append('=');
                        found.append(new String(client.getData().forPath(q[2] + "/" + name), StandardCharsets.UTF_8)).append(' ');
                    }
                }
                return found.toString().trim();
            case "compress":
                return client.create().compressed().forPath(q[2], q[3].getBytes(StandardCharsets.UTF_8));
            case "decompress":
                return new String(client.getData().decompressed().forPath(q[2]), StandardCharsets.UTF_8);
            case "join":
                GroupMember member = new GroupMember(client, q[3], q[4], q[5].getBytes(StandardCharsets.UTF_8));
                member.start();
                members.put(q[2], member);
                return "";
            case "payload":
                members.get(q[2]).setThisData(q[3].getBytes(StandardCharsets.UTF_8));
                return "";
            case "members":
                return members.get(q[2]).getCurrentMembers().entrySet().stream()
                        .map(e -> e.getKey() + "=" + new String(e.getValue(), StandardCharsets.UTF_8))
                        .sorted().collect(Collectors.joining(" "));
            case "leave":
                members.remove(q[2]).close();
                return "";
            case "keep":
                PersistentNode node = new PersistentNode(client, CreateMode.EPHEMERAL, false, q[3], q[4].getBytes(StandardCharsets.UTF_8));
                node.start();
                nodes.put(q[2], node);
                return "";
            case "kept":
                return nodes.get(q[2]).waitForInitialCreate(20, TimeUnit.SECONDS) + " " + nodes.get(q[2]).getActualPath() + " "
                        + new String(nodes.get(q[2]).getData(), StandardCharsets.UTF_8);
            case "drop":
                nodes.remove(q[2]).close();
                return "";
            case "follow":
                CuratorCache cache = CuratorCache.build(client, q[3]);
                Queue<String> events = new ConcurrentLinkedQueue<>();
                told.put(q[2], events);
                cache.listenable().addListener((type, old, now) -> events.add(type + ":" + (now != null ? now : old).getPath()));
                cache.start();
                caches.put(q[2], cache);
                return "";
            case "cached":
                return caches.get(q[2]).stream()
                        .map(d -> d.getPath() + "=" + d.getStat().getVersion() + ":"
                                + (d.getData() == null ? "" : new String(d.getData(), StandardCharsets.UTF_8)))
                        .sorted().collect(Collectors.joining(" "));
            case "told":
                StringBuilder list = new StringBuilder();
                for (String event; (event = told.get(q[2]).poll()) != null; ) {
                    list.append(event).append(' ');
                }
                return list.toString().trim();
            case "unfollow":
                caches.remove(q[2]).close();
                return "";
            case "scribble":
                scribble(q[2], Integer.parseInt(q[3]), Integer.parseInt(q[4]));
                return "";
            case "session":
                return Long.toHexString(client.getZookeeperClient().getZooKeeper().getSessionId());
            case "loop":
                new Loop(q[2], q[3], q[4], q[5], q[7]).run(Integer.parseInt(q[6]));
                return "";
            default:
                throw new IllegalArgumentException(q[1]);
        }
    }

    static void scribble(String root, int seed, int n) throws Exception {
        Random random = new Random(seed);
        for (int i = 0; i < n; i++) {
            StringBuilder path = new StringBuilder(root);
            for (int depth = 1 + random.nextInt(3); depth > 0; depth--) {
                path.append('/').append((char) ('a' + random.nextInt(3)));
            }
            byte[] data = ("java" + i).getBytes(StandardCharsets.UTF_8);
            try {
                switch (random.nextInt(4)) {
                    case 0:
                        client.delete().forPath(path.toString());
                        break;
                    case 1:
                        client.setData().forPath(path.toString(), data);
                        break;
                    default:
                        client.create().creatingParentsIfNeeded().forPath(path.toString(), data);
                }
            } catch (KeeperException e) {
                // it already exists, is missing, or has children
            }
        }
    }

    static Number add(String kind, String path, int delta, int times) throws Exception {
        RetryNTimes patience = new RetryNTimes(10000, 1);
        switch (kind) {
            case "long":
                return add(new DistributedAtomicLong(client, path, patience), (long) delta, times);
            case "integer":
                return add(new DistributedAtomicInteger(client, path, patience), delta, times);
            case "count":
                try (SharedCount count = new SharedCount(client, path, 0)) {
                    count.start();
                    for (int i = 0; i < times; ) {
                        VersionedValue<Integer> now = count.getVersionedValue();
                        if (count.trySetCount(now, now.getValue() + delta)) {
                            i++;
                        }
                    }
                    return count.getCount();
                }
            default:
                throw new IllegalArgumentException(kind);
        }
    }

    static <T extends Number> T add(DistributedAtomicNumber<T> number, T delta, int times) throws Exception {
        for (int i = 0; i < times; i++) {
            AtomicValue<T> added = number.add(delta);
            if (!added.succeeded()) {
                throw new IllegalStateException("gave up after " + added.getStats().getOptimisticTries() + " tries");
            }
        }
        return number.get().postValue();
    }

    static Lock lock(String name, String kind, String path, String arg) throws Exception {
        switch (kind) {
            case "mutex":
            case "revocable":
                return mutex(new InterProcessMutex(client, path), name, kind.equals("revocable"));
            case "multi":
                return multi(new InterProcessMultiLock(client, List.of(path, arg)));
            case "read":
                return mutex(new InterProcessReadWriteLock(client, path).readLock(), name, false);
            case "write":
                return mutex(new InterProcessReadWriteLock(client, path).writeLock(), name, false);
            case "downgradable":
                return new Downgradable(path);
            case "semaphore-mutex":
                return semaphoreMutex(new InterProcessSemaphoreMutex(client, path));
            case "semaphore":
                return new Semaphore(path, arg);
            case "latch":
                return new Latch(path, name);
            case "selector":
                return new Selector(path, name);
            default:
                throw new IllegalArgumentException(kind);
        }
    }

    static Lock mutex(InterProcessMutex mutex, String name, boolean revocable) {
        return new Lock() {
            public void take() throws Exception {
                if (revocable) {
                    mutex.makeRevocable(forLock -> say("- revoked " + name));
                }
                mutex.acquire();
            }

            public void give() throws Exception {
                mutex.release();
            }

            public Collection<String> who() throws Exception {
                return mutex.getParticipantNodes();
            }
        };
    }

    static Lock multi(InterProcessMultiLock locks) {
        return new Lock() {
            public void take() throws Exception {
                locks.acquire();
            }

            public void give() throws Exception {
                locks.release();
            }
        };
    }

    static Lock semaphoreMutex(InterProcessSemaphoreMutex mutex) {
        return new Lock() {
            public void take() throws Exception {
                mutex.acquire();
            }

            public void give() throws Exception {
                mutex.release();
            }
        };
    }

    /** A write lock that can become a read lock. */
    static final class Downgradable implements Lock {
        final InterProcessReadWriteLock lock;
        InterProcessMutex held;

        Downgradable(String path) {
            lock = new InterProcessReadWriteLock(client, path);
            held = lock.writeLock();
        }

        public void take() throws Exception {
            held.acquire();
        }

        void downgrade() throws Exception {
            lock.readLock().acquire();
            held.release();
            held = lock.readLock();
        }

        public void give() throws Exception {
            held.release();
        }
    }

    /** A semaphore whose limit is in a SharedCount. */
    static final class Semaphore implements Lock {
        final SharedCount limit;
        final InterProcessSemaphoreV2 semaphore;
        Lease lease;

        Semaphore(String path, String countPath) throws Exception {
            limit = new SharedCount(client, countPath, 1);
            limit.start();
            semaphore = new InterProcessSemaphoreV2(client, path, limit);
        }

        public void take() throws Exception {
            lease = semaphore.acquire();
        }

        public void give() throws Exception {
            semaphore.returnLease(lease);
        }

        public Collection<String> who() throws Exception {
            return semaphore.getParticipantNodes();
        }
    }

    static final class Latch implements Lock {
        final String path, name;
        LeaderLatch latch;

        Latch(String path, String name) {
            this.path = path;
            this.name = name;
        }

        public void take() throws Exception {
            latch = new LeaderLatch(client, path, name);
            latch.start();
            latch.await();
        }

        public void give() throws Exception {
            latch.close();
        }

        public Collection<String> who() throws Exception {
            return new LeaderLatch(client, path).getParticipants().stream()
                    .map(p -> p.getId() + (p.isLeader() ? "*" : "")).collect(Collectors.toList());
        }
    }

    static final class Selector extends LeaderSelectorListenerAdapter implements Lock {
        final LeaderSelector selector;
        CountDownLatch elected, resigned, done;

        Selector(String path, String name) {
            selector = new LeaderSelector(client, path, this);
            selector.setId(name);
        }

        public void takeLeadership(CuratorFramework client) throws Exception {
            CountDownLatch end = resigned;
            elected.countDown();
            end.await();
        }

        public void take() throws Exception {
            elected = new CountDownLatch(1);
            resigned = new CountDownLatch(1);
            try {
                selector.start();
            } catch (IllegalStateException started) {
                while (!selector.requeue()) { // the previous term is still being cleaned up
                    Thread.onSpinWait();
                }
            }
            while (!elected.await(1, TimeUnit.SECONDS)) {
                selector.requeue(); // it has left the queue if the connection was lost; otherwise this does nothing
            }
        }

        public void give() {
            resigned.countDown();
        }

        public Collection<String> who() throws Exception {
            return selector.getParticipants().stream()
                    .map(p -> p.getId() + (p.isLeader() ? "*" : "")).collect(Collectors.toList());
        }
    }

    /** Sections, reported as the Go clients report theirs. System.nanoTime is CLOCK_MONOTONIC, which all processes share. */
    static final class Loop {
        static final Pattern VERSION = Pattern.compile("\"version\":(\\d+)");
        final String name, path;
        final boolean reader, exclusive;
        final Lock lock;
        final SocketChannel resource;

        Loop(String name, String kind, String path, String arg, String socket) throws Exception {
            this.name = name;
            this.path = path;
            lock = lock(name, kind, path, arg);
            reader = kind.equals("read");
            exclusive = !reader && !kind.equals("semaphore");
            resource = SocketChannel.open(StandardProtocolFamily.UNIX);
            resource.connect(UnixDomainSocketAddress.of(socket));
        }

        void run(int sections) throws Exception {
            for (int op = 1; op <= sections; op++) {
                tell("called", op);
                lock.take();
                tell("granted", op);
                String set = "{\"set\":\"" + path + "\",\"client\":\"" + name + "\",\"token\":0";
                String version = ask(set + "}");
                if (exclusive) {
                    ask(set + ",\"base\":" + version + ",\"element\":\"" + name + "-" + op + "\"}");
                }
                tell("released", op);
                lock.give();
            }
            resource.close();
        }

        void tell(String kind, int op) {
            say("+ {\"kind\":\"" + kind + "\",\"client\":\"" + name + "\",\"op\":" + op + ",\"weight\":1,\"read\":" + reader
                    + ",\"at\":" + System.nanoTime() + "}");
        }

        String ask(String request) throws Exception {
            resource.write(ByteBuffer.wrap((request + "\n").getBytes(StandardCharsets.UTF_8)));
            StringBuilder reply = new StringBuilder();
            for (ByteBuffer b = ByteBuffer.allocate(1024); reply.indexOf("\n") < 0; b.clear()) {
                if (resource.read(b) < 0) {
                    throw new IllegalStateException("resource is gone");
                }
                reply.append(StandardCharsets.UTF_8.decode(b.flip()));
            }
            Matcher version = VERSION.matcher(reply);
            if (!version.find() || reply.indexOf("error") >= 0) {
                throw new IllegalStateException(reply.toString());
            }
            return version.group(1);
        }
    }
}
