#!/bin/bash
# Replaces the stand-in, and runs a real ZooKeeper in a process of its own, with the jars in FOREIGN_JARS.
set -euo pipefail
config=${*: -1}
flags=()
for flag in "${@:1:$#-1}"; do
  [[ $flag == *CnxnFactory=* ]] || flags+=("$flag")
done
echo "listening 127.0.0.1:$(sed -n 's/^clientPort=//p' "$config")"
exec java "${flags[@]}" -cp "$FOREIGN_JARS" org.apache.zookeeper.server.ZooKeeperServerMain "$config" >/dev/null 2>&1
