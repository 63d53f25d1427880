import java.util.Scanner;
import java.util.TreeMap;
import org.apache.helix.HelixManager;
import org.apache.helix.HelixManagerFactory;
import org.apache.helix.InstanceType;
import org.apache.helix.NotificationContext;
import org.apache.helix.controller.HelixControllerMain;
import org.apache.helix.manager.zk.ZKHelixAdmin;
import org.apache.helix.model.ExternalView;
import org.apache.helix.model.IdealState.RebalanceMode;
import org.apache.helix.model.InstanceConfig;
import org.apache.helix.model.MasterSlaveSMD;
import org.apache.helix.model.Message;
import org.apache.helix.participant.statemachine.StateModel;
import org.apache.helix.participant.statemachine.StateModelFactory;
import org.apache.helix.participant.statemachine.StateModelInfo;
import org.apache.helix.participant.statemachine.Transition;

/**
 * A Helix controller or participant behind the line protocol of integration/others/curator/Peer.java. The controller creates
 * the cluster, and a resource with a master and a slave.
 *
 *   view wanted    waits until the participants are in these states: "{a=MASTER, b=SLAVE}" without spaces
 */
public class HelixPeer {
    private static final String CLUSTER = "cluster";
    private static final String RESOURCE = "resource";

    public static void main(String[] args) throws Exception {
        String addr = args[0];
        String name = args[1];
        if (name.equals("controller")) {
            control(addr);
        } else {
            participate(addr, name);
        }
        System.out.println("ready");
        ZKHelixAdmin admin = new ZKHelixAdmin.Builder().setZkAddress(addr).build();
        for (Scanner in = new Scanner(System.in); in.hasNextLine();) {
            String[] words = in.nextLine().split(" ");
            String view = await(admin, words[2]);
            System.out.println(words[0] + (view.equals(words[2]) ? " ok" : " error it is " + view));
        }
        System.exit(0);
    }

    private static void control(String addr) throws Exception {
        ZKHelixAdmin admin = new ZKHelixAdmin.Builder().setZkAddress(addr).build();
        admin.addCluster(CLUSTER, true);
        admin.addStateModelDef(CLUSTER, MasterSlaveSMD.name, MasterSlaveSMD.build());
        for (String name : new String[] {"a", "b"}) {
            admin.addInstance(CLUSTER, new InstanceConfig(name));
        }
        admin.addResource(CLUSTER, RESOURCE, 1, MasterSlaveSMD.name, RebalanceMode.SEMI_AUTO.name());
        admin.rebalance(CLUSTER, RESOURCE, 2);
        HelixControllerMain.startHelixController(addr, CLUSTER, "controller", HelixControllerMain.STANDALONE);
    }

    private static void participate(String addr, String name) throws Exception {
        HelixManager manager = HelixManagerFactory.getZKHelixManager(CLUSTER, name, InstanceType.PARTICIPANT, addr);
        manager.getStateMachineEngine().registerStateModelFactory(MasterSlaveSMD.name, new Factory());
        manager.connect();
    }

    private static String await(ZKHelixAdmin admin, String wanted) throws InterruptedException {
        String states = "";
        for (long start = System.currentTimeMillis(); System.currentTimeMillis() - start < 120_000; Thread.sleep(50)) {
            ExternalView view = admin.getResourceExternalView(CLUSTER, RESOURCE);
            if (view != null && view.getStateMap(RESOURCE + "_0") != null) {
                states = new TreeMap<>(view.getStateMap(RESOURCE + "_0")).toString().replace(" ", "");
            }
            if (states.equals(wanted)) {
                break;
            }
        }
        return states;
    }

    private static class Factory extends StateModelFactory<StateModel> {
        @Override
        public StateModel createNewStateModel(String resource, String partition) {
            return new Model();
        }
    }

    /** What a participant does in a transition: nothing. */
    @StateModelInfo(initialState = "OFFLINE", states = {"MASTER", "SLAVE", "OFFLINE", "DROPPED"})
    public static class Model extends StateModel {
        @Transition(from = "OFFLINE", to = "SLAVE")
        public void onBecomeSlaveFromOffline(Message message, NotificationContext context) {}

        @Transition(from = "SLAVE", to = "MASTER")
        public void onBecomeMasterFromSlave(Message message, NotificationContext context) {}

        @Transition(from = "MASTER", to = "SLAVE")
        public void onBecomeSlaveFromMaster(Message message, NotificationContext context) {}

        @Transition(from = "SLAVE", to = "OFFLINE")
        public void onBecomeOfflineFromSlave(Message message, NotificationContext context) {}

        @Transition(from = "OFFLINE", to = "DROPPED")
        public void onBecomeDroppedFromOffline(Message message, NotificationContext context) {}
    }
}
