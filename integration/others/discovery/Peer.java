import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.x.discovery.ServiceCache;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceType;
import org.apache.curator.x.discovery.UriSpec;
import org.apache.curator.x.discovery.details.JsonInstanceSerializer;
import org.apache.curator.x.discovery.details.ServiceCacheListener;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.cloud.client.discovery.DiscoveryClient;
import org.springframework.cloud.zookeeper.serviceregistry.ServiceInstanceRegistration;
import org.springframework.cloud.zookeeper.serviceregistry.ZookeeperServiceRegistry;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Configuration;

/**
 * Curator's service discovery and Spring Cloud's behind the line protocol of integration/others/curator/Peer.java.
 *
 *   samples base               registers the instances for the golden files
 *   unregister base            closes what registered them
 *   query base service         the instances as Curator reads them, a line of id address port sslPort payload uri each
 *   read node                  the instance that Curator parses from the data of a node, in hexadecimal digits; "error" if it cannot
 *   cache name base service    makes name a ServiceCache
 *   cached name                its instances, and how often it has reported a change: 2 id=address:port ...
 *   application name service   runs a Spring application, which registers itself as the service
 *   discover name service      the instances as the application's DiscoveryClient reads them: uri metadata ...
 *   leave name                 ends the application
 */
public final class Peer {
    static String connect;
    static CuratorFramework client;
    static final Map<String, ServiceDiscovery<Object>> discoveries = new ConcurrentHashMap<>();
    static final Map<String, ServiceCache<Object>> caches = new ConcurrentHashMap<>();
    static final Map<String, AtomicInteger> told = new ConcurrentHashMap<>();
    static final Map<String, ConfigurableApplicationContext> applications = new ConcurrentHashMap<>();

    @Configuration
    @EnableAutoConfiguration
    static class Application {}

    public static void main(String[] args) throws Exception {
        connect = args[0];
        client = CuratorFrameworkFactory.newClient(connect, Integer.parseInt(args[1]), 5000, new ExponentialBackoffRetry(50, 5));
        client.start();
        client.blockUntilConnected();
        say("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            String[] q = line.split(" ");
            try {
                say(q[0] + " ok " + execute(q));
            } catch (Throwable e) {
                say(q[0] + " error " + e);
            }
        }
        Runtime.getRuntime().halt(0);
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static String execute(String[] q) throws Exception {
        switch (q[1]) {
            case "samples":
                samples(discovery(q[2]));
                return "";
            case "unregister":
                discoveries.remove(q[2]).close();
                return "";
            case "query":
                return discovery(q[2]).queryForInstances(q[3]).stream()
                        .map(i -> i.getId() + " " + i.getAddress() + " " + i.getPort() + " " + i.getSslPort() + " " + String.valueOf(i.getPayload()).replaceAll("[\n\r]", " ") + " "
                                + i.buildUriSpec())
                        .sorted().collect(Collectors.joining("; "));
            case "read":
                return read(HexFormat.of().parseHex(q[2]));
            case "cache":
                ServiceCache<Object> cache = discovery(q[3]).serviceCacheBuilder().name(q[4]).build();
                AtomicInteger times = new AtomicInteger();
                cache.addListener(new ServiceCacheListener() {
                    @Override
                    public void cacheChanged() {
                        times.incrementAndGet();
                    }

                    @Override
                    public void stateChanged(CuratorFramework c, ConnectionState s) {}
                });
                cache.start();
                caches.put(q[2], cache);
                told.put(q[2], times);
                return "";
            case "cached":
                return told.get(q[2]).get() + " " + caches.get(q[2]).getInstances().stream()
                        .map(i -> i.getId() + "=" + i.getAddress() + ":" + i.getPort())
                        .sorted().collect(Collectors.joining(" "));
            case "application":
                applications.put(q[2], application(q[3]));
                return "";
            case "discover":
                return applications.get(q[2]).getBean(DiscoveryClient.class).getInstances(q[3]).stream()
                        .map(i -> i.getUri() + " " + new TreeMap<>(i.getMetadata()))
                        .sorted().collect(Collectors.joining("; "));
            case "leave":
                applications.remove(q[2]).close();
                return "";
            default:
                throw new IllegalArgumentException(q[1]);
        }
    }

    static ServiceDiscovery<Object> discovery(String base) throws Exception {
        ServiceDiscovery<Object> d = discoveries.get(base);
        if (d == null) {
            d = ServiceDiscoveryBuilder.builder(Object.class).client(client).basePath(base).build();
            d.start();
            discoveries.put(base, d);
        }
        return d;
    }

    /** The format is that of TestDecode_CuratorAsJackson. Whatever Java lacks is empty, 0 or the default. */
    static String read(byte[] node) {
        ServiceInstance<Object> i;
        try {
            i = new JsonInstanceSerializer<>(Object.class).deserialize(node);
        } catch (Exception e) {
            return "error";
        }
        return quoted(i.getName()) + " " + quoted(i.getId()) + " " + quoted(i.getAddress()) + " " + number(i.getPort()) + " " + number(i.getSslPort()) + " "
                + i.getRegistrationTimeUTC() + " " + (i.getServiceType() == null ? ServiceType.DYNAMIC : i.getServiceType()) + " " + i.isEnabled() + " "
                + quoted(i.buildUriSpec());
    }

    static String quoted(String s) {
        return "\"" + (s == null ? "" : s) + "\"";
    }

    static int number(Integer i) {
        return i == null ? 0 : i;
    }

    static void samples(ServiceDiscovery<Object> d) throws Exception {
        d.registerService(ServiceInstance.builder().name("plain").id("11111111-2222-4333-8444-555555555555")
                .address("10.0.0.7").port(8080).registrationTimeUTC(1700000000123L).build());
        Map<String, Object> payload = new LinkedHashMap<>();
        payload.put("zone", "a");
        payload.put("weight", 3);
        payload.put("ratio", 0.5);
        payload.put("canary", true);
        payload.put("nothing", null);
        payload.put("inside", List.of(1, 2));
        payload.put("text", "\"quoted\" \\ / \b\t\n\f\r\u0001\u001f\u007f é \u2028 \ud83d\ude00 <a href='b'>&</a>");
        d.registerService(ServiceInstance.builder().name("full").id("id \"of\" é").address("host.example.com").port(8080)
                .sslPort(8443).payload(payload).registrationTimeUTC(1700000000123L).serviceType(ServiceType.STATIC)
                .uriSpec(new UriSpec("{scheme}://{address}:{ssl-port}/{name}/{id}?{[}{]}&t={registration-time-utc}&s={service-type}&p={port}")).build());
        d.registerService(ServiceInstance.builder().name("text").id("1").address("10.0.0.7").payload("a text")
                .registrationTimeUTC(0).serviceType(ServiceType.PERMANENT).build());
        d.registerService(ServiceInstance.builder().name("sequential").id("s").address("10.0.0.7").sslPort(8443)
                .registrationTimeUTC(1700000000123L).serviceType(ServiceType.DYNAMIC_SEQUENTIAL).uriSpec(new UriSpec("")).build());
        d.registerService(ServiceInstance.builder().name("disabled").id("1").address("10.0.0.7").port(1).enabled(false)
                .registrationTimeUTC(1700000000123L).build());
    }

    static ConfigurableApplicationContext application(String service) {
        ConfigurableApplicationContext context = new SpringApplicationBuilder(Application.class).web(WebApplicationType.NONE)
                .logStartupInfo(false)
                .properties("spring.application.name=" + service, "spring.main.banner-mode=off",
                        "spring.cloud.zookeeper.connect-string=" + connect,
                        "spring.cloud.zookeeper.discovery.instance-host=10.0.0.7", "spring.cloud.zookeeper.discovery.instance-port=8080",
                        "spring.cloud.zookeeper.discovery.instance-id=spring-1", "spring.cloud.zookeeper.discovery.metadata.zone=a")
                .run();
        // Without a web server Spring does not know that the application serves, so this does what Spring would do then.
        ServiceInstanceRegistration registration = context.getBean(ServiceInstanceRegistration.class);
        registration.setPort(8080);
        context.getBean(ZookeeperServiceRegistry.class).register(registration);
        return context;
    }
}
