#!/bin/bash
# Replaces the java that runs the cluster for the tests of the crate zookeeper: java -jar main.jar SERVERS.
# It prints the addresses of the servers. The letter k stops the next one, q stops them all.
set -euo pipefail
coproc zktestd { exec "$ZKTESTD" -fronts "$3"; }
read -r _ addresses <&"${zktestd[0]}"
echo "$addresses"
stopped=0
while read -rn1 letter; do
  case $letter in
  k) echo "stop $((++stopped))" >&"${zktestd[1]}" ;;
  q) exit ;;
  esac
done
