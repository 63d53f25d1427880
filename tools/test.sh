#!/bin/bash
# Runs the tests of several modules concurrently, since some wait while others compute. At the end it prints why tests were skipped, with
# counts, and then the failures.
#
#   tools/test.sh 'DIRECTORY ARGUMENT...'...   the arguments are those of go test
set -uo pipefail
cd "$(dirname "$0")/.."
events=$(mktemp -d)
trap 'rm -rf "$events"' EXIT

# Each run has a process group of its own. If this script's group has no parent in its session, as under nohup or setsid, the kernel may send
# SIGHUP and SIGCONT to all of it when a process exits while another one is stopped, and some tests stop processes.
set -m
trap 'kill -TERM -- "${runs[@]/#/-}" 2>/dev/null; exit 130' INT TERM HUP
# With -C, an older Go downloads the toolchain that the tools require; with -modfile, it fails.
gotestsum=$(go -C tools tool -n gotestsum) || exit

n=0 runs=() broken=()
for run; do
  ((++n))
  read -ra words <<<"$run"
  printf '== %s\n' "$run"
  # Go's default timeout of ten minutes a package is too short on a busy machine.
  {
    "$gotestsum" --format=pkgname --hide-summary=all --jsonfile="$events/$n.json" --raw-command -- \
      go -C "${words[0]}" test -json -vet=off -timeout=30m "${words[@]:1}" </dev/null 2>&1 >&3 | tee "$events/$n.err" >&2
  } 3>&1 &
  runs+=($!)
done
for i in "${!runs[@]}"; do
  wait "${runs[i]}" || broken+=("go -C ${*:i+1:1}: exit status $?"$'\n'"$(tail "$events/$((i + 1)).err")")
done
go run ./internal/testkit/testsum "$events"/*.json || exit
((${#broken[@]} == 0)) && exit
printf '\nno test failed, but go test did:\n'
printf '%s\n' "${broken[@]}"
exit 1
