#!/bin/bash
# Builds a .deb and an .rpm of zkr for amd64 and arm64, and for each an archive with the Dockerfile of a static image. Builds of the same
# commit are identical.
#
#   cmd/zkr/packaging/build.sh directory [version]        default: date and hash of the commit
set -euo pipefail

mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")"
commit() { git log -1 --date=format:%Y%m%d --format="$1"; }
export VERSION=${2:-0.0.0~$(commit %cd.%h)} SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(commit %ct)}
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath -buildvcs=false"
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
umask 022

nfpm=$(GOWORK=off go tool -modfile=../../../tools/go.mod -n nfpm)
go -C .. build -o "$stage/zkr" .
mkdir -p "$stage/man" "$stage/image/tmp"
chmod 1777 "$stage/image/tmp" # contains the file that zkr held reads
"$stage/zkr" man "$stage/man"
for shell in bash zsh fish; do "$stage/zkr" completion "$shell" >"$stage/zkr.$shell"; done
cp worker.service nfpm.yaml ../../../LICENSE "$stage/"
for ARCH in amd64 arm64; do
  export ARCH
  GOOS=linux GOARCH=$ARCH go -C .. build -ldflags="-s -X main.packaged=$VERSION" -o "$stage/image/zkr" .
  for packager in deb rpm; do
    (cd "$stage" && "$nfpm" package --packager "$packager" --target "$out/zkr-linux-$ARCH.$packager")
  done
  mkdir -p "$out/zkr-image-$ARCH"
  tar -C "$stage/image" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf "$out/zkr-image-$ARCH/rootfs.tar" tmp zkr
  cp Dockerfile "$out/zkr-image-$ARCH/"
done
