package runs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestJob_TheNextProcessGoesOn: a run that fails, or that another machine did, does not hide when the job last
// succeeded.
func TestJob_TheNextProcessGoesOn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nightly.prom")
	at := func(hour int) time.Time { return time.Unix(int64(hour)*3600, 0) }
	says := func(want ...string) {
		t.Helper()
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		got := regexp.MustCompile(`(?m)^zkr_last_(\S+)\{name="/jobs/nightly"\} (.+)$`).FindAllStringSubmatch(string(text), -1)
		lines := make([]string, len(got))
		for i, m := range got {
			lines[i] = m[1] + " " + m[2]
		}
		assert.Equal(t, want, lines)
	}

	failing := New("/jobs/nightly", file, true)
	failing.Started(at(1))
	require.NoError(t, failing.Write())
	says("run_start_timestamp_seconds 3600")
	failing.Ended(at(2), time.Hour, 3, false)
	require.NoError(t, failing.Write())
	says("run_duration_seconds 3600", "run_end_timestamp_seconds 7200", "run_start_timestamp_seconds 3600", "run_status 3",
		"success_timestamp_seconds 0")

	good := New("/jobs/nightly", file, true)
	good.Started(at(3))
	good.Ended(at(4), time.Hour, 0, false)
	require.NoError(t, good.Write())
	says("run_duration_seconds 3600", "run_end_timestamp_seconds 14400", "run_start_timestamp_seconds 10800",
		"run_status 0", "success_timestamp_seconds 14400")

	stopped := New("/jobs/nightly", file, true)
	stopped.Started(at(5))
	stopped.Ended(at(6), time.Minute, 0, true)
	require.NoError(t, stopped.Write())
	says("run_duration_seconds 60", "run_end_timestamp_seconds 21600", "run_start_timestamp_seconds 18000", "run_status 0",
		"success_timestamp_seconds 14400")

	elsewhere := New("/jobs/nightly", file, true)
	elsewhere.Succeeded(at(7))
	require.NoError(t, elsewhere.Write())
	says("run_duration_seconds 60", "run_end_timestamp_seconds 21600", "run_start_timestamp_seconds 18000", "run_status 0",
		"success_timestamp_seconds 25200")
}

// TestJob_ForgetsTimesOfTheFuture: a clock that was ahead must not hide for days that the job does not run.
func TestJob_ForgetsTimesOfTheFuture(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nightly.prom")
	ran := func(at time.Time, status int) string {
		job := New("/jobs/nightly", file, true)
		job.Started(at)
		job.Ended(at, time.Second, status, false)
		require.NoError(t, job.Write())
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return string(text)
	}
	now := time.Now().Truncate(time.Second)
	ran(now.AddDate(0, 0, 9), 0)
	text := ran(now, 3)
	assert.Contains(t, text, `zkr_last_run_status{name="/jobs/nightly"} 3`)
	assert.Contains(t, text, `zkr_last_success_timestamp_seconds{name="/jobs/nightly"} 0`)
	ran(now.Add(30*time.Second), 0)
	assert.NotContains(t, ran(now, 3), `zkr_last_success_timestamp_seconds{name="/jobs/nightly"} 0`,
		"clocks are set by seconds")
}

// TestJob_ALeaderDoesNotSucceed: a leader is stopped and does not succeed. A program without a job reports none of
// this.
func TestJob_ALeaderDoesNotSucceed(t *testing.T) {
	leader := New("/app/leader", "", false)
	leader.Started(time.Unix(1, 0))
	leader.Ended(time.Unix(2, 0), time.Second, 0, false)
	assert.Equal(t, 4, testutil.CollectAndCount(leader))
	require.NoError(t, leader.Write())
	var none *Job
	none.Started(time.Now())
	none.Succeeded(time.Now())
	require.NoError(t, none.Write())
}

// TestJob_DocumentsNameItsMetrics: the metrics named by the rules, the page and the guide exist.
func TestJob_DocumentsNameItsMetrics(t *testing.T) {
	there := strings.Join([]string{startMetric, endMetric, durationMetric, statusMetric, successMetric}, " ")
	for _, document := range []string{
		"operations/alerts.yaml", "operations/jobs_test.yaml", "operations.md",
		"guides/zkr-reference.md",
	} {
		text, err := os.ReadFile(filepath.Join("../../../../docs", document))
		require.NoError(t, err)
		named := regexp.MustCompile(`\bzkr_\w+`).FindAllString(string(text), -1)
		require.NotEmpty(t, named, document)
		for _, name := range named {
			assert.Contains(t, there, name, document)
		}
	}
}
