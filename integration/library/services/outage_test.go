package services

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
)

// witness is one source that an operator may consult during an outage.
type witness struct {
	mu   sync.Mutex
	said []said
}

type said struct {
	at   time.Time
	text string
}

func (w *witness) say(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, said{time.Now(), text})
}

// says waits until the source has reported all words in one line, since a given moment.
func (w *witness) says(t *testing.T, since time.Time, words ...string) said {
	t.Helper()
	for deadline := time.Now().Add(90 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		w.mu.Lock()
		all := slices.Clone(w.said)
		w.mu.Unlock()
		for _, s := range all {
			if s.at.After(since) && !slices.ContainsFunc(words,
				func(word string) bool { return !strings.Contains(s.text, word) }) {
				return s
			}
		}
		require.True(t, time.Now().Before(deadline), "never said %q, but:\n%s", words, lines(all))
	}
}

// zkr starts the program. Its log goes to the witness.
func zkr(t *testing.T, program string, env []string, args ...string) *witness {
	t.Helper()
	w := &witness{}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			w.say(lines.Text())
		}
		_ = cmd.Wait() // it is interrupted
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-ended
	})
	return w
}

// events reads what the page of zkr serve receives.
func events(t *testing.T, address string) *witness {
	t.Helper()
	w := &witness{}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/ui/events", nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	go func() {
		defer func() { _ = answer.Body.Close() }() // it ends with the test
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: ")); ok {
				w.say(string(data))
			}
		}
	}()
	return w
}

// watchMetrics reports each new value of a metric.
func watchMetrics(t *testing.T, address string) *witness {
	t.Helper()
	w, p := &witness{}, &process{t: t, address: address}
	go func() {
		for before := (metrics{}); t.Context().Err() == nil; time.Sleep(100 * time.Millisecond) {
			now, err := p.scrape()
			if err != nil {
				continue
			}
			for series, value := range now {
				if before[series] != value {
					w.say(series + " " + value)
				}
			}
			before = now
		}
	}()
	return w
}

// watchAlerts reports each alert that fires, as the page of Prometheus shows it.
func watchAlerts(t *testing.T, p *server) *witness {
	t.Helper()
	w := &witness{}
	go func() {
		for before := (map[string]bool{}); t.Context().Err() == nil; time.Sleep(200 * time.Millisecond) {
			now, err := p.Alerts(t.Context())
			if err != nil {
				continue
			}
			for _, a := range now.Alerts {
				text := fmt.Sprintf("%s %s %s since %v", a.Labels["alertname"], a.Annotations["summary"],
					a.Annotations["description"], a.ActiveAt)
				if a.State == v1.AlertStateFiring && !before[text] {
					before[text] = true
					w.say(text)
				}
			}
		}
	}()
	return w
}

// TestOutage_EachSourceTells takes down two of three servers. An operator must be able to name the lock, the time and
// the reason from each source alone: the default log of zkr, its metrics, the alerts, the page. OUTAGE is the duration
// (default 12 s, which is too short for the alert that there is no leader).
func TestOutage_EachSourceTells(t *testing.T) {
	lasts := 12 * time.Second
	if text := os.Getenv("OUTAGE"); text != "" {
		var err error
		lasts, err = time.ParseDuration(text)
		require.NoError(t, err)
	}
	e := zkserver.StartEnsemble(t, 3, zkserver.WithTickTime(500*time.Millisecond))
	program := filepath.Join(t.TempDir(), "zkr")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = "../../../cmd/zkr"
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))

	const path = "/app/leader"
	env := []string{"ZKR_SERVERS=" + e.Addr(), "ZKR_SESSION_TIMEOUT=" + sessionTimeout.String()}
	elects, serves := freeAddress(t), freeAddress(t)
	log := zkr(t, program, env, "elect", "--metrics-http", elects, path, "--", "sleep", "1000")
	zkr(t, program, env, "serve", "--http", serves, "--ui-root", "/app")
	log.says(t, time.Time{}, "elected at "+path)
	(&process{t: t, address: serves}).eventually("the page shows the leader", func() bool {
		status, _, err := (&process{t: t, address: serves}).get("/readyz")
		return err == nil && status == http.StatusOK
	})
	metrics, page := watchMetrics(t, elects), events(t, serves)
	page.says(t, time.Time{}, path, `"current":true`)
	alerts := &witness{}
	p := prometheus(t, []target{{"worker", "node1", elects}, {"page", "node2", serves}})
	if p != nil {
		alerts = watchAlerts(t, p)
	}

	began := time.Now()
	row := func(source, what string, since time.Time, s said) {
		t.Helper()
		t.Logf("%6.1f s  %-8s %-26s %s", s.at.Sub(since).Seconds(), source, what, s.text)
	}
	leader, err := e.Leader()
	require.NoError(t, err)
	for _, s := range e.Servers {
		if s != leader {
			require.NoError(t, s.Kill())
		}
	}
	row("log", "no connection", began, log.says(t, began, "zookeeper: suspended", "server=", "holds=1", "left=", "error="))
	row("metrics", "no connection", began, metrics.says(t, began, `zkrecipes_session_state{state="suspended"} 1`))
	row("page", "no connection", began, page.says(t, began, `"current":false`, `"lost":`, `"cause":"connect to `))
	row("log", "which lock", began, log.says(t, began, "path="+path))
	row("log", "the program is stopped", began, log.says(t, began, "the program exited"))
	row("log", "why", began, log.says(t, began, "zookeeper: cannot connect", "server=", "error="))
	row("metrics", "which lock", began, metrics.says(t, began, `zkrecipes_holds{name="`+path, " 0"))
	if p != nil {
		row("alert", "no connection, which lock", began,
			alerts.says(t, began, "ZooKeeperDisconnected node1", `election "`+path))
		if lasts >= time.Minute {
			row("alert", "none leads", began, alerts.says(t, began, "ZooKeeperNoLeader", "No process of worker", path))
		}
	}
	time.Sleep(time.Until(began.Add(lasts)))
	healed := time.Now()
	for _, s := range e.Servers {
		if s != leader {
			require.NoError(t, s.Restart())
		}
	}
	row("log", "connected again", healed, log.says(t, healed, "zookeeper: connected"))
	row("log", "elected again", healed, log.says(t, healed, "elected at "+path))
	row("metrics", "elected again", healed, metrics.says(t, healed, `zkrecipes_holds{name="`+path, " 1"))
	again := page.says(t, healed, `"current":true`, path)
	row("page", "elected again", healed, again)

	// The page lists the outage among its changes, with beginning and end.
	var seen struct {
		Changes []struct{ Words string }
	}
	require.NoError(t, json.Unmarshal([]byte(again.text), &seen))
	if !slices.ContainsFunc(seen.Changes, func(c struct{ Words string }) bool {
		return strings.Contains(c.Words,
			"no connection")
	}) {
		row("page", "the outage is in the list", healed, page.says(t, healed, "no connection"))
	}
}

func lines(all []said) string {
	var text strings.Builder
	for _, s := range all {
		fmt.Fprintln(&text, s.text)
	}
	return text.String()
}
