#!/bin/bash
# Runs systemd as process 1 of the Debian in directory $1, in namespaces of its own except for the network, until this
# process ends.
set -euo pipefail

mounted=$(findmnt -n -t cgroup2 -o TARGET | sed -n 1p)
group=$(mktemp -d "${mounted:?no control groups of version 2}/systemd-XXXXXX")
chmod 755 "$group"
clean() {
  echo 1 >"$group/cgroup.kill"
  for ((i = 0; i < 100; i++)); do # a process that was killed leaves its group a moment later
    find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || true
    [[ -d $group ]] || return 0
    sleep 0.1
  done
}
trap clean EXIT
(
  echo "$BASHPID" >"$group/cgroup.procs"
  # shellcheck disable=SC2016 # the inner shell expands it
  exec unshare --mount --pid --uts --ipc --cgroup --fork --kill-child=KILL bash -euc '
    cd "$1"
    hostname node1
    mount --bind . .
    cd "$1"
    mount -t proc proc proc
    mount -t sysfs -o ro sysfs sys
    mount -t cgroup2 cgroup2 sys/fs/cgroup
    mount -t tmpfs tmpfs run
    mount --rbind /dev dev
    mkdir -p old
    pivot_root . old
    umount -l old
    exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd
  ' bash "$1"
) &
trap 'kill -KILL $!' TERM
wait $!
