#!/bin/bash
# Puts the playground together: the files of docs/playground, the program for the browser, and Go's glue for it.
#
#   docs/playground/build.sh directory
#
# The program is compressed here and decompressed by the page, so its size does not depend on the web server.
set -euo pipefail

mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")"
cp ./*.{html,css,js} "$(go env GOROOT)/lib/wasm/wasm_exec.js" "$out/"
GOOS=js GOARCH=wasm go build -trimpath -buildvcs=false -ldflags='-s -w' -o "$out/playground.wasm" .
gzip -9 -n -c "$out/playground.wasm" >"$out/playground.wasm.gz"
rm "$out/playground.wasm"
printf 'playground.wasm.gz: %d KB\n' $(($(wc -c <"$out/playground.wasm.gz") / 1000))
