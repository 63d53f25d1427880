#!/bin/bash
# Takes the place of the java that runs the cluster of the tests of the crate zookeeper: java -jar main.jar SERVERS.
# It writes where the servers listen. The letter k stops the next of them, q ends them all.
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
