import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A Kafka client behind the line protocol of integration/others/curator/Peer.java, which answers requests in order.
 *
 *   brokers n        waits until there are n brokers
 *   topic            creates a topic with a replica on each of two brokers
 *   isr n            waits until n replicas of every partition are in sync
 *   produce from to  writes these numbers, each of them to all replicas in sync
 *   consume n        reads in a new group, and waits until it has exactly the numbers below n
 */
public class KafkaPeer {
    private static final String TOPIC = "numbers";
    private static final long LIMIT = Duration.ofMinutes(2).toMillis();

    public static void main(String[] args) {
        Map<String, Object> config = Map.of("bootstrap.servers", args[0], "acks", "all", "auto.offset.reset", "earliest");
        try (Admin admin = Admin.create(config);
                KafkaProducer<String, String> producer =
                        new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
                Scanner in = new Scanner(System.in)) {
            System.out.println("ready");
            while (in.hasNextLine()) {
                String[] words = in.nextLine().split(" ");
                try {
                    run(words, config, admin, producer);
                    System.out.println(words[0] + " ok");
                } catch (Exception e) {
                    System.out.println(words[0] + " error " + e);
                }
            }
        }
    }

    private static void run(String[] words, Map<String, Object> config, Admin admin, KafkaProducer<String, String> producer)
            throws Exception {
        int n = words.length > 2 ? Integer.parseInt(words[2]) : 0;
        switch (words[1]) {
            case "brokers" -> until(() -> admin.describeCluster().nodes().get().size() == n);
            case "topic" -> admin.createTopics(List.of(new NewTopic(TOPIC, 4, (short) 2))).all().get();
            case "isr" -> until(() -> admin.describeTopics(List.of(TOPIC)).allTopicNames().get().get(TOPIC).partitions()
                    .stream().map(TopicPartitionInfo::isr).allMatch(isr -> isr.size() == n));
            case "produce" -> {
                List<Future<?>> sent = new ArrayList<>();
                for (int i = n; i < Integer.parseInt(words[3]); i++) {
                    sent.add(producer.send(new ProducerRecord<>(TOPIC, "" + i, "" + i)));
                }
                for (Future<?> f : sent) {
                    f.get();
                }
            }
            case "consume" -> consume(n, "group-" + words[0], config);
            default -> throw new IllegalArgumentException(words[1]);
        }
    }

    private static void consume(int n, String group, Map<String, Object> config) throws Exception {
        config = new java.util.HashMap<>(config);
        config.put("group.id", group);
        config.remove("acks");
        List<Integer> got = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(TOPIC));
            until(() -> {
                consumer.poll(Duration.ofMillis(200)).forEach(r -> got.add(Integer.parseInt(r.value())));
                return got.size() >= n;
            });
        }
        List<Integer> sorted = got.stream().sorted().collect(Collectors.toList());
        for (int i = 0; i < Math.max(n, sorted.size()); i++) {
            if (sorted.get(i) != i) {
                throw new IllegalStateException("number " + i + " is " + sorted.get(i));
            }
        }
    }

    private interface Condition {
        boolean holds() throws Exception;
    }

    private static void until(Condition condition) throws Exception {
        for (long start = System.currentTimeMillis(); !condition.holds(); Thread.sleep(50)) {
            if (System.currentTimeMillis() - start > LIMIT) {
                throw new IllegalStateException("it takes too long");
            }
        }
    }
}
