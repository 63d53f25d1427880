#!/bin/bash
# Checks that go.mod and go.sum of the nested module $1 say what its sources need. `go mod tidy` reads no go.work, so the
# check runs on copies that replace the modules of this clone.
set -euo pipefail
cd "$(dirname "$0")/.."
cd "$1"

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp go.mod "$copy/go.mod"
sed '\,^github.com/zkrecipes/zkrecipes[/ ],d' go.sum >"$copy/go.sum" # which has our checksums when a release is made
for use in $(go work edit -json | sed -n 's/.*"DiskPath": "\(.*\)".*/\1/p'); do
  [[ $use == . ]] || go mod edit -replace "$(sed -n 's/^module //p' "$use/go.mod")=$(cd "$use" && pwd)" "$copy/go.mod"
done
GOWORK=off go mod tidy -diff -modfile="$copy/go.mod"
