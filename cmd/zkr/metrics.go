package main

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/web"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zkhttp"
	"github.com/zkrecipes/zkrecipes/zkprom"
)

// metricsFlags select where a zkr that runs a program reports its metrics.
type metricsFlags struct {
	addresses []string
	file      string
	collector *zkprom.Collector // nil if no address serves metrics
}

func (m *metricsFlags) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&m.addresses, "metrics-http", nil,
		"`address` on which to serve /metrics, /healthz and /readyz; unix:/path for a socket")
}

func (m *metricsFlags) check() error {
	// node_exporter silently ignores files of any other name.
	if m.file != "" && filepath.Ext(m.file) != ".prom" {
		return exit.Usagef("--metrics-file %s: want a name that ends in .prom: node_exporter reads no other file", m.file)
	}
	// Reading a pipe would block forever, and a directory cannot be replaced.
	if info, err := os.Stat(m.file); m.file != "" && err == nil && !info.Mode().IsRegular() {
		return exit.Usagef("--metrics-file %s: want a regular file, not %v", m.file, info.Mode())
	}
	return checkAddresses("metrics-http", m.addresses)
}

// checkAddresses rejects strings that are not addresses to listen on.
func checkAddresses(flag string, addresses []string) error {
	for _, address := range addresses {
		if err := web.CheckAddress(address); err != nil {
			return exit.Usagef("--%s %s: want host:port or unix:/path: %v", flag, address, err)
		}
	}
	return nil
}

// newSite returns a site with /healthz, /readyz and /metrics.
func (a *app) newSite(client *conn.Client, metrics ...prometheus.Collector) *web.Site {
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics...)
	site := web.New(a.log)
	site.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	site.Handle("/readyz", zkhttp.Health(client))
	return site
}

// tellMetrics serves metrics until stop is called. An address that is unavailable does not keep the program from
// running.
func (a *app) tellMetrics(ctx context.Context, addresses []string, client *conn.Client,
	metrics ...prometheus.Collector,
) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	site := a.newSite(client, metrics...)
	var running sync.WaitGroup
	running.Go(func() {
		if err := site.Listen(ctx, addresses); ctx.Err() == nil {
			a.log.Warn("no metrics are served: cannot listen, see --metrics-http", "error", err)
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// metricsName returns the name of a lock in metrics: its path, or the end of a long path.
func metricsName(path string) string {
	const most, cut = 100, "…"
	if len(path) <= most {
		return path
	}
	end := path[len(path)-most+len(cut):]
	for !utf8.RuneStart(end[0]) {
		end = end[1:]
	}
	return cut + end
}

// collect creates the collector if an address serves metrics.
func (m *metricsFlags) collect() (err error) {
	if len(m.addresses) > 0 {
		m.collector, err = zkprom.New()
	}
	return err
}
