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

	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
)

const operations = "../../../docs/operations"

// server is a Prometheus that scrapes processes, with the alert rules of the documents.
type server struct {
	t       *testing.T
	address string
}

// target is what a Prometheus scrapes.
type target struct{ job, instance, address string }

// prometheus starts a server that scrapes all processes.
func (s *stage) prometheus() *server {
	s.t.Helper()
	targets := make([]target, len(s.processes))
	for i, p := range s.processes {
		targets[i] = target{p.job, p.id, p.address}
	}
	return prometheus(s.t, targets)
}

// prometheus starts a server. It returns nil if the program is missing; with REQUIRE_REAL=1 the test fails.
func prometheus(t *testing.T, targets []target) *server {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		if need.All() {
			t.Fatal("no Prometheus: apt-get install prometheus")
		}
		return nil
	}
	rules, err := filepath.Abs(filepath.Join(operations, "alerts.yaml"))
	require.NoError(t, err)
	var config strings.Builder
	fmt.Fprintf(&config,
		"global: {scrape_interval: %[1]v, scrape_timeout: %[1]v, evaluation_interval: %[1]v}\nrule_files: "+
			"[%[2]q]\nscrape_configs:\n",
		scrapeInterval, rules)
	job := ""
	for _, to := range targets {
		if to.job != job {
			job = to.job
			fmt.Fprintf(&config, "  - job_name: %s\n    static_configs:\n", job)
		}
		fmt.Fprintf(&config, "      - {targets: [%q], labels: {instance: %s}}\n", to.address, to.instance)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(file, []byte(config.String()), 0o600))
	p := &server{t: t, address: freeAddress(t)}
	cmd := exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+p.address,
		"--log.level=warn")
	var said strings.Builder
	cmd.Stderr = &said
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may already have ended
		_ = cmd.Wait()         // it was killed
		if t.Failed() {
			t.Logf("Prometheus said:\n%s", said.String())
		}
	})
	for deadline := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		all, err := p.query("sum(up)", time.Now(), time.Now())
		if err == nil && len(all) == 1 && all[0].samples[0].value == float64(len(targets)) {
			return p
		}
		require.True(t, time.Now().Before(deadline), "waiting until Prometheus has scraped all")
	}
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
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/api/v1/query_range?"+of.Encode(),
		nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }() // it was read
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

// dashboard is the part of docs/operations/dashboard.json that is needed.
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

// show draws the panels for a run. Each query must have data.
func (p *server) show(t *testing.T, d *drawing) {
	t.Helper()
	for _, panel := range readDashboard(t).Panels {
		part := part{title: panel.Title, kind: panel.Type, unit: panel.FieldConfig.Defaults.Unit}
		for _, target := range panel.Targets {
			lines, err := p.query(variables.Replace(target.Expr), d.from, d.to)
			require.NoError(t, err, panel.Title)
			require.NotEmpty(t, lines, "%s shows nothing: %s", panel.Title, target.Expr)
			for _, l := range lines {
				part.add(target.LegendFormat, l)
			}
		}
		d.parts = append(d.parts, part)
	}
}

// fired returns the alerts that fired during a run, each with the reason of a loss.
func (p *server) fired(t *testing.T, d *drawing) map[string]bool {
	t.Helper()
	alerts, err := p.query(`ALERTS{alertstate="firing"}`, d.from, d.to)
	require.NoError(t, err)
	names := map[string]bool{}
	for _, a := range alerts {
		names[strings.TrimSpace(a.labels["alertname"]+" "+a.labels["reason"])] = true
	}
	return names
}
