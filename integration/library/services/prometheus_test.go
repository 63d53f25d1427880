package services

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
)

const operations = "../../../docs/operations"

// server is a Prometheus that scrapes processes, with the alert rules of the documents.
type server struct {
	v1.API
	t *testing.T
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
	address := freeAddress(t)
	client, err := api.NewClient(api.Config{Address: "http://" + address})
	require.NoError(t, err)
	p := &server{v1.NewAPI(client), t}
	cmd := exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--log.level=warn")
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
		if err == nil && len(all) == 1 && int(all[0].Values[0].Value) == len(targets) {
			return p
		}
		require.True(t, time.Now().Before(deadline), "waiting until Prometheus has scraped all")
	}
}

// query evaluates an expression for each second.
func (p *server) query(expr string, from, to time.Time) (model.Matrix, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), limit)
	defer cancel()
	found, _, err := p.QueryRange(ctx, expr, v1.Range{Start: from, End: to, Step: time.Second})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	lines, ok := found.(model.Matrix)
	if !ok {
		return nil, fmt.Errorf("%s: want a matrix, got %T", expr, found)
	}
	return lines, nil
}

// dashboard is the part of docs/operations/dashboard.json that is needed.
type dashboard struct {
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
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

// show evaluates the queries of all panels for a run. Each must have data.
func (p *server) show(t *testing.T, from, to time.Time) {
	t.Helper()
	for _, panel := range readDashboard(t).Panels {
		for _, target := range panel.Targets {
			lines, err := p.query(variables.Replace(target.Expr), from, to)
			require.NoError(t, err, panel.Title)
			require.NotEmpty(t, lines, "%s shows nothing: %s", panel.Title, target.Expr)
		}
	}
}

// fired returns the alerts that fired during a run, each with the reason of a loss.
func (p *server) fired(t *testing.T, from, to time.Time) map[string]bool {
	t.Helper()
	alerts, err := p.query(`ALERTS{alertstate="firing"}`, from, to)
	require.NoError(t, err)
	names := map[string]bool{}
	for _, a := range alerts {
		names[strings.TrimSpace(string(a.Metric["alertname"]+" "+a.Metric["reason"]))] = true
	}
	return names
}
