// Package runs records when a job last ran, how that run ended, and when the job last succeeded, as metrics for
// Prometheus.
package runs

import (
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// The metrics. Times are in seconds since 1970, and are omitted if they are unknown; the duration and the status are
// not times.
const (
	startMetric    = "zkr_last_run_start_timestamp_seconds"
	endMetric      = "zkr_last_run_end_timestamp_seconds"
	durationMetric = "zkr_last_run_duration_seconds"
	statusMetric   = "zkr_last_run_status"
	successMetric  = "zkr_last_success_timestamp_seconds"
)

// Job is what is known about the runs of one job. It is a Prometheus collector. All methods are no-ops on nil.
//
// The file outlives its process, and the next process continues it. It therefore only contains what stays true: times,
// and what happened at them.
type Job struct {
	name, file string
	counts     bool // a success is meaningful, unlike for a leader, which runs until it is stopped

	mu   sync.Mutex
	last facts
}

// facts are in seconds since 1970, except for took and status; 0 means unknown.
type facts struct{ start, end, took, status, success float64 }

// New returns a job; name is the value of the label "name". An empty file means no file. If counts is false, the job
// reports no success.
func New(name, file string, counts bool) *Job { return &Job{name: name, file: file, counts: counts} }

// Started records that the program was started.
func (j *Job) Started(now time.Time) {
	j.change(func(f *facts) { f.start = seconds(now) })
}

// Ended records that the program has ended. The run succeeded if the status is 0 and the program was not asked to stop.
func (j *Job) Ended(now time.Time, took time.Duration, status int, asked bool) {
	j.change(func(f *facts) {
		f.end, f.took, f.status = seconds(now), took.Seconds(), float64(status)
		if status == 0 && !asked {
			f.success = seconds(now)
		}
	})
}

// Succeeded records that a run has succeeded, on any machine.
func (j *Job) Succeeded(at time.Time) {
	j.change(func(f *facts) { f.success = max(f.success, seconds(at)) })
}

func (j *Job) change(do func(*facts)) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	do(&j.last)
}

// Write writes the file, if there is one. It keeps what an earlier or concurrent process has written there.
func (j *Job) Write() error {
	if j == nil || j.file == "" {
		return nil
	}
	// Read without mu: the disk may hang, and then only this call.
	written := j.read().upTo(time.Now().Add(time.Minute))
	j.change(func(f *facts) { *f = later(*f, written) })
	registry := prometheus.NewRegistry()
	if err := registry.Register(j); err != nil {
		return err
	}
	return prometheus.WriteToTextfile(j.file, registry) // atomically, by a rename
}

// later merges what two processes know.
func later(a, b facts) facts {
	if a.end < b.end {
		a.end, a.took, a.status = b.end, b.took, b.status
	}
	a.start, a.success = max(a.start, b.start), max(a.success, b.success)
	return a
}

// upTo drops times after most. They stem from a clock that was ahead, and would hide for that long that the job does
// not run.
func (f facts) upTo(most time.Time) facts {
	if f.start > seconds(most) {
		f.start = 0
	}
	if f.end > seconds(most) {
		f.end, f.took, f.status = 0, 0, 0
	}
	if f.success > seconds(most) {
		f.success = 0
	}
	return f
}

// read reads the file. What cannot be read counts as unknown.
func (j *Job) read() (f facts) {
	file, err := os.Open(j.file)
	if err != nil {
		return f
	}
	defer file.Close() //nolint:errcheck // read-only
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(file)
	if err != nil {
		return f
	}
	for metric, to := range map[string]*float64{
		startMetric: &f.start, endMetric: &f.end, durationMetric: &f.took, statusMetric: &f.status, successMetric: &f.success,
	} {
		for _, m := range families[metric].GetMetric() {
			if labels := m.GetLabel(); len(labels) == 1 && labels[0].GetValue() == j.name {
				*to = m.GetGauge().GetValue()
			}
		}
	}
	return f
}

var (
	startDesc    = desc(startMetric, "When the program was last started here.")
	endDesc      = desc(endMetric, "When the program last ended here.")
	durationDesc = desc(durationMetric, "Duration of the last run that has ended.")
	statusDesc   = desc(statusMetric, "Exit status of zkr for the last run that has ended.")
	successDesc  = desc(successMetric, "When a run last succeeded: with --once on any machine, else here. 0 means never.")
)

func desc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"name"}, nil)
}

// Describe implements prometheus.Collector.
func (j *Job) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{startDesc, endDesc, durationDesc, statusDesc, successDesc} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (j *Job) Collect(to chan<- prometheus.Metric) {
	var f facts
	j.change(func(last *facts) { f = *last })
	tell := func(known bool, d *prometheus.Desc, value float64) {
		if known {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, j.name)
		}
	}
	tell(f.start > 0, startDesc, f.start)
	tell(f.end > 0, endDesc, f.end)
	tell(f.end > 0, durationDesc, f.took)
	tell(f.end > 0, statusDesc, f.status)
	tell(j.counts && (f.end > 0 || f.success > 0), successDesc, f.success)
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
