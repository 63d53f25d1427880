#!/bin/bash
# Checks that go.mod and go.sum of the nested module $1 match its sources. `go mod tidy` ignores go.work, so the check runs on
# copies with replace directives for the modules of this clone.
set -euo pipefail
cd "$(dirname "$0")/.."
cd "$1"

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp go.mod "$copy/go.mod"
sed '\,^github.com/zkrecipes/zkrecipes[/ ],d' go.sum >"$copy/go.sum" # it contains our own checksums while a release is made
for use in $(go work edit -json | sed -n 's/.*"DiskPath": "\(.*\)".*/\1/p'); do
  [[ $use == . ]] || go mod edit -replace "$(sed -n 's/^module //p' "$use/go.mod")=$(cd "$use" && pwd)" "$copy/go.mod"
done
GOWORK=off go mod tidy -diff -modfile="$copy/go.mod"
