#!/bin/bash
# Puts the attachments of the release $1, such as 0.1.0, into the directory $2 for the platforms $3...: each program as built by
# `go install` from the tagged module, its bill of materials, the notes, and the checksums of everything in the directory.
set -euo pipefail
version=$1
mkdir -p "$2"
out=$(cd "$2" && pwd)
shift 2
cd "$(dirname "$0")/.."
module=$(sed -n 's/^module //p' go.mod)
cyclonedx=$(go tool -modfile=tools/go.mod -n cyclonedx-gomod)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

# All modules come from GOPROXY, since copies of ours on this machine may be older than the tags.
export GOPATH=$stage GOMODCACHE=$stage/modules GOBIN= GOFLAGS=-modcacherw GOWORK=off CGO_ENABLED=0
for platform; do
  export GOOS=${platform%/*} GOARCH=${platform#*/}
  for program in zkr zktestd; do
    go install -trimpath -ldflags=-s "$module/cmd/$program@v$version"
    extension=$([[ $GOOS != windows ]] || echo .exe)
    name=$program-$GOOS-$GOARCH
    find "$stage/bin" -name "$program$extension" -exec mv {} "$out/$name$extension" \;
    "$cyclonedx" bin -json -std -noserial -notimestamp -output "$out/$name.cdx.json" "$out/$name$extension"
  done
done

# The notes are the first section of the changelog.
chapter=$(sed -n '/^## /{p;q}' CHANGELOG.md)
[[ $chapter == '## [Unreleased]' || $chapter == "## [$version]"* ]] ||
  { echo "release: CHANGELOG.md begins with $chapter, want [Unreleased] or [$version]" >&2; exit 1; }
awk '/^## / {if (said++) exit; next} said' CHANGELOG.md >"$out/NOTES.md"
cd "$out"
find . -maxdepth 1 -type f ! -name SHA256SUMS ! -name NOTES.md -printf '%P\n' | sort | xargs sha256sum >SHA256SUMS
