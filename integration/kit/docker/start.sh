#!/bin/bash
# Installs Debian's Docker and starts its daemon by hand, as root, where no init system does. It does nothing if a
# daemon already answers. The daemon stays; stop it with: kill "$(cat /var/run/docker.pid)"
set -euo pipefail

log=${DOCKERD_LOG:-/var/log/dockerd.log}

if docker info >/dev/null 2>&1; then
  exit 0
fi
if ! command -v dockerd >/dev/null || ! command -v docker >/dev/null; then
  "$(dirname "$0")/../../../.ci/install" docker.io
fi

# The daemon needs the cgroup controllers mounted, which an init system would have done.
if ! mountpoint -q /sys/fs/cgroup; then
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
fi

start() {
  setsid dockerd "$@" >"$log" 2>&1 </dev/null &
  local daemon=$!
  for _ in $(seq 480); do
    docker info >/dev/null 2>&1 && return 0
    kill -0 "$daemon" 2>/dev/null || return 1
    sleep 0.25
  done
  kill "$daemon"
  return 1
}

# overlay2 on a file system that supports it, otherwise vfs, which copies but works everywhere. Old kernels need old iptables.
start || start --storage-driver=vfs || {
  update-alternatives --set iptables /usr/sbin/iptables-legacy >/dev/null 2>&1 || true
  start --storage-driver=vfs
} || {
  echo "dockerd does not start:" >&2
  tail -n 20 "$log" >&2
  exit 1
}
