package services

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const operations = "../../docs/operations"

// server is a Prometheus that scrapes all processes, with the alert rules of the documents.
type server struct {
	t       *testing.T
	address string
}

// prometheus starts one. Without Prometheus it skips the test, or fails it with REQUIRE_REAL=1.
func (s *stage) prometheus() *server {
	s.t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		if os.Getenv("REQUIRE_REAL") == "1" {
			s.t.Fatal("no Prometheus: install it")
		}
		s.t.Skip("no Prometheus: install it")
	}
	rules, err := filepath.Abs(filepath.Join(operations, "alerts.yaml"))
	require.NoError(s.t, err)
	var config strings.Builder
	fmt.Fprintf(&config, "global: {scrape_interval: %[1]v, scrape_timeout: %[1]v, evaluation_interval: %[1]v}\nrule_files: [%[2]q]\nscrape_configs:\n",
		scrapeInterval, rules)
	for _, job := range []string{"leader", "nightly"} {
		fmt.Fprintf(&config, "  - job_name: %s\n    static_configs:\n", job)
		for _, p := range s.processes {
			if p.job == job {
				fmt.Fprintf(&config, "      - {targets: [%q], labels: {instance: %s}}\n", p.address, p.id)
			}
		}
	}
	dir := s.t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	require.NoError(s.t, os.WriteFile(file, []byte(config.String()), 0o600))
	p := &server{t: s.t, address: freeAddress(s.t)}
	cmd := exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+p.address,
		"--log.level=warn")
	var said strings.Builder
	cmd.Stderr = &said
	require.NoError(s.t, cmd.Start())
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // it was killed
		if s.t.Failed() {
			s.t.Logf("Prometheus said:\n%s", said.String())
		}
	})
	s.processes[0].eventually("Prometheus has scraped all", func() bool {
		all, err := p.query("sum(up)", time.Now(), time.Now())
		return err == nil && len(all) == 1 && all[0].samples[0].value == float64(len(s.processes))
	})
	return p
}

// series is one line of a panel.
type series struct {
	labels  map[string]string
	samples []sample
}

type sample struct {
	at    time.Time
	value float64
}

// query evaluates an expression for each second.
func (p *server) query(expr string, from, to time.Time) (all []series, err error) {
	second := func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
	of := url.Values{"query": {expr}, "start": {second(from)}, "end": {second(to)}, "step": {"1"}}
	ctx, cancel := context.WithTimeout(p.t.Context(), limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/api/v1/query_range?"+of.Encode(), nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }() // was read
	var body struct {
		Error string
		Data  struct {
			Result []struct {
				Metric map[string]string
				Values [][2]any
			}
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil {
		return nil, err
	}
	if body.Error != "" {
		return nil, fmt.Errorf("%s: %s", expr, body.Error)
	}
	for _, r := range body.Data.Result {
		line := series{labels: r.Metric}
		for _, v := range r.Values {
			at, _ := v[0].(float64)
			text, _ := v[1].(string)
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, err
			}
			line.samples = append(line.samples, sample{time.Unix(int64(at), 0), value})
		}
		all = append(all, line)
	}
	return all, nil
}

// dashboard is what is needed of docs/operations/dashboard.json.
type dashboard struct {
	Panels []struct {
		Title       string
		Type        string
		FieldConfig struct {
			Defaults struct{ Unit string }
		}
		Targets []struct{ Expr, LegendFormat string }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(operations, "dashboard.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &d))
	require.NotEmpty(t, d.Panels)
	return d
}

// variables are those of the dashboard, as Grafana fills them in.
var variables = strings.NewReplacer("$job", ".+", "$__rate_interval", "5s")

// TestDashboard_ShowsFaults looks at a run as an operator does: at the panels of the dashboard, and at the alerts.
// OPERATIONS_PICTURE=file writes a picture of the panels; there are longer pauses between the faults then.
func TestDashboard_ShowsFaults(t *testing.T) {
	picture := os.Getenv("OPERATIONS_PICTURE")
	s := set(t)
	p := s.prometheus()
	drawn := &drawing{from: time.Now()}
	for _, fault := range []struct {
		name string
		do   func()
	}{{"partition", s.partition}, {"kill", s.kill}, {"freeze", s.expiry}, {"restart", s.restart}} {
		s.rest(picture != "")
		drawn.marks = append(drawn.marks, mark{fault.name, time.Now()})
		fault.do()
	}
	s.rest(picture != "")
	drawn.to = time.Now()
	for _, panel := range readDashboard(t).Panels {
		part := part{title: panel.Title, kind: panel.Type, unit: panel.FieldConfig.Defaults.Unit}
		for _, target := range panel.Targets {
			lines, err := p.query(variables.Replace(target.Expr), drawn.from, drawn.to)
			require.NoError(t, err, panel.Title)
			require.NotEmpty(t, lines, "%s shows nothing: %s", panel.Title, target.Expr)
			for _, l := range lines {
				part.add(target.LegendFormat, l)
			}
		}
		drawn.parts = append(drawn.parts, part)
	}
	alerts, err := p.query(`ALERTS{alertstate="firing"}`, drawn.from, drawn.to)
	require.NoError(t, err)
	fired := map[string]bool{}
	for _, a := range alerts {
		fired[a.labels["alertname"]+" "+a.labels["reason"]] = true
	}
	t.Logf("alerts: %v", fired)
	require.True(t, fired["ZooKeeperHoldLost deadline"], "the loss of the partition")
	require.False(t, fired["ZooKeeperNoLeader "], "the next leads after a session timeout")
	if picture != "" {
		require.NoError(t, os.WriteFile(picture, []byte(drawn.svg()), 0o644))
	}
}

// rest waits until the panels show good health, and a little longer for a picture.
func (s *stage) rest(picture bool) {
	s.t.Helper()
	s.leader()
	if picture {
		time.Sleep(12 * time.Second)
	}
}
