//go:build unix

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestExitStatus(t *testing.T) {
	srv := zktest.Run(t)
	for _, c := range []struct {
		name string
		args []string
		want int
	}{
		{"the program's", []string{"lock", "/p", "--", "sh", "-c", "exit 7"}, 7},
		{"good", []string{"lock", "/p", "--", "true"}, 0},
		{"killed by a signal", []string{"lock", "/p", "--", "sh", "-c", "kill -KILL $$"}, 137},
		{"several paths", []string{"lock", "--path", "/p", "--path", "/q", "--", "true"}, 0},
		{"several paths, tried", []string{"lock", "--try", "--path", "/p", "--path", "/q", "--", "true"}, 0},
		{"not found", []string{"lock", "/p", "--", "no-such-program"}, exitNotFound},
		{"cannot run", []string{"lock", "/p", "--", "/etc/passwd"}, exitCannotRun},
		{"no program", []string{"lock", "/p"}, exitUsage},
		{"no path", []string{"lock", "--", "true"}, exitUsage},
		{"relative path", []string{"lock", "p", "--", "true"}, exitUsage},
		{"unknown flag", []string{"lock", "--such", "/p", "--", "true"}, exitUsage},
		{"unknown verb", []string{"such"}, exitUsage},
		{"too much grace", []string{"lock", "--grace", "30s", "/p", "--", "true"}, exitUsage},
		{"no server", []string{"lock", "--servers", "127.0.0.1:1", "--connect-timeout", "0.2", "/p", "--", "true"}, exitUnreachable},
		{"held", []string{"lock", "/p", "--shell", "$ZKR held"}, 0},
		{"held by no lock", []string{"held"}, exitUsage},
		{"held when the file has gone", []string{"held", "--state", "/no/such/file"}, exitLost},
		{"max-run", []string{"lock", "--max-run", "0.1", "/p", "--", "sleep", "60"}, exitMaxRun},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, _, errs := run(t, srv.Addr(), c.args...)
			assert.Equal(t, c.want, status, errs)
		})
	}
}
