package zkserver

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// An Option changes how a server starts.
type Option func(*config)

type config struct {
	release    string
	tick       time.Duration
	minSession time.Duration // 0: two ticks
	maxSession time.Duration // 0: twenty ticks
	syncLimit  int
	ownUsers   bool
	reconfig   bool
	properties []string
	settings   []string // lines of zoo.cfg
	jvm        []string
	env        []string
}

func newConfig(opts []Option) config {
	cfg := config{tick: 500 * time.Millisecond, syncLimit: 5}
	for _, opt := range opts {
		opt(&cfg)
	}
	return cfg
}

// zooCfg returns the part of zoo.cfg that all servers share.
func (c config) zooCfg() string {
	var b strings.Builder
	fmt.Fprintf(&b, "tickTime=%d\nmaxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n",
		c.tick.Milliseconds())
	if c.minSession > 0 {
		fmt.Fprintf(&b, "minSessionTimeout=%d\n", c.minSession.Milliseconds())
	}
	if c.maxSession > 0 {
		fmt.Fprintf(&b, "maxSessionTimeout=%d\n", c.maxSession.Milliseconds())
	}
	fmt.Fprintf(&b, "initLimit=20\nsyncLimit=%d\n", c.syncLimit)
	if c.reconfig {
		b.WriteString("reconfigEnabled=true\n")
	}
	for _, line := range c.settings {
		b.WriteString(line + "\n")
	}
	return b.String()
}

// WithRelease selects the release of ZooKeeper: "debian", a number such as "3.9.5", or "3.9" for the newest 3.9 that
// versions/fetch.sh has fetched. Without it, ZOOKEEPER_HOME selects it, then ZKRECIPES_ZOOKEEPER, which accepts the
// same names, then the newest release available.
func WithRelease(name string) Option { return func(c *config) { c.release = name } }

// WithTickTime sets tickTime (default 500 ms). Session timeouts are 2 to 20 ticks unless WithSessionTimeouts overrides
// that.
func WithTickTime(d time.Duration) Option { return func(c *config) { c.tick = d } }

// WithSessionTimeouts sets the shortest and the longest session timeout that the server grants; 0 keeps the default.
func WithSessionTimeouts(shortest, longest time.Duration) Option {
	return func(c *config) { c.minSession, c.maxSession = shortest, longest }
}

// WithContainerCheck sets how often empty containers and expired TTL nodes are removed (default one minute).
func WithContainerCheck(d time.Duration) Option {
	return WithProperty("znode.container.checkIntervalMs", fmt.Sprint(d.Milliseconds()))
}

// WithSyncLimit sets the number of silent ticks after which a leader drops a follower, and a follower its leader
// (default 5).
func WithSyncLimit(ticks int) Option { return func(c *config) { c.syncLimit = ticks } }

// WithProperty adds a Java system property, such as zookeeper.extendedTypesEnabled.
func WithProperty(name, value string) Option {
	return func(c *config) { c.properties = append(c.properties, name+"="+value) }
}

// WithSetting adds a line to zoo.cfg, for settings that are not system properties, such as localSessionsEnabled.
func WithSetting(name, value string) Option {
	return func(c *config) { c.settings = append(c.settings, name+"="+value) }
}

// WithJVM adds options for the Java virtual machine. The defaults suit tests: a small heap and the compiler that starts
// fast.
func WithJVM(options ...string) Option {
	return func(c *config) { c.jvm = append(c.jvm, options...) }
}

// WithEnv adds environment variables, such as those of faketime.
func WithEnv(variables ...string) Option {
	return func(c *config) { c.env = append(c.env, variables...) }
}

// WithOwnUsers runs each member of an ensemble under a different user id, for Isolate. It needs root.
func WithOwnUsers() Option { return func(c *config) { c.ownUsers = true } }

// memoryDir returns the parent of data directories: /dev/shm, which is fast, or the temporary directory without it.
func memoryDir() string {
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err == nil && info.IsDir() {
		return shm
	}
	return os.TempDir()
}
