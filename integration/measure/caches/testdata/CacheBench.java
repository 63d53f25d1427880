import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Arrays;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.retry.RetryForever;

/**
 * Keeps a CuratorCache of a tree. It answers each line of input with one line:
 *
 * <pre>
 * open ADDRESS PATH   milliseconds until initialized, and bytes of heap that the cache takes
 * follow              forgets the lags
 * lags                number of changes, median and 99th percentile of their lag in microseconds
 * await PATH TEXT     answers when the cache has the text
 * close
 * </pre>
 */
public class CacheBench {
    static final long[] lags = new long[1_000_000];
    static int count;
    static CuratorFramework client;
    static CuratorCache cache;

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            System.out.println(answer(words));
        }
    }

    static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "open":
                return open(words[1], words[2]);
            case "follow":
                synchronized (lags) {
                    count = 0;
                }
                return "";
            case "lags":
                synchronized (lags) {
                    Arrays.sort(lags, 0, count);
                    return count + " " + lags[count / 2] + " " + lags[count * 99 / 100];
                }
            case "await":
                while (!text(words[1]).equals(words[2])) {
                    Thread.sleep(1);
                }
                return "";
            case "close":
                cache.close();
                client.close();
                return "";
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    static String open(String address, String path) throws Exception {
        client = CuratorFrameworkFactory.newClient(address, 30_000, 15_000, new RetryForever(10));
        client.start();
        client.blockUntilConnected();
        long before = used();
        long start = System.nanoTime();
        cache = CuratorCache.build(client, path);
        CountDownLatch initialized = new CountDownLatch(1);
        cache.listenable().addListener(CuratorCacheListener.builder()
                .forInitialized(initialized::countDown)
                .forChanges((old, now) -> note(now))
                .build());
        cache.start();
        initialized.await();
        long milliseconds = (System.nanoTime() - start) / 1_000_000;
        return milliseconds + " " + (used() - before);
    }

    static void note(ChildData now) {
        String text = new String(now.getData(), StandardCharsets.UTF_8);
        if (text.startsWith("at ")) {
            Instant instant = Instant.now();
            long micros = ChronoUnit.MICROS.between(Instant.EPOCH, instant);
            synchronized (lags) {
                lags[count++] = micros - Long.parseLong(text.substring(3));
            }
        }
    }

    static String text(String path) {
        Optional<ChildData> data = cache.get(path);
        return data.map(d -> new String(d.getData(), StandardCharsets.UTF_8)).orElse("");
    }

    static long used() throws Exception {
        for (int i = 0; i < 3; i++) {
            System.gc();
            Thread.sleep(100);
        }
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }
}
