#!/bin/bash
# Fetches releases of ZooKeeper, Curator and Spring Cloud Zookeeper, with some of their own tests, into cache/ with
# Maven, and verifies the checksum of every file.
#
#   fetch.sh                          the releases that .ci/run needs
#   fetch.sh all                      every release with checksums in sums/
#   fetch.sh zookeeper-3.9.5 ...      these
#   fetch.sh --add zookeeper-3.9.5    writes the checksums of a new release
#
# A release in the cache that has the right checksums is not fetched again.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")"

plugin=org.apache.maven.plugins:maven-dependency-plugin:3.6.1
default=(zookeeper-3.8.6 zookeeper-3.9.5 curator-5.9.0 discovery-5.9.0 curatortests-5.9.0 zookeepertests-3.9.5)

sums() { (cd "$1" && sha256sum -- *.*); }

# download copies the files of release $1 into directory $2.
download() {
  local attempt
  for attempt in 1 2 3; do
    rm -rf "$2"
    if mvn --batch-mode --quiet --no-transfer-progress -Dstyle.color=never -P "${1%%-*}" -Drelease="${1#*-}" \
      "$plugin:copy-dependencies" -DoutputDirectory="$PWD/$2"; then
      return
    fi
    echo "fetch.sh: $1: attempt $attempt of 3 failed" >&2
    sleep $((5 * attempt))
  done
  echo "fetch.sh: $1 cannot be fetched; see the errors of mvn above" >&2
  return 1
}

fetch() {
  local release=$1 dir=cache/$1 expected=sums/$1
  if [[ ! -f $expected ]]; then
    echo "fetch.sh: no checksums of $release; to trust what Maven fetches now: fetch.sh --add $release" >&2
    return 1
  fi
  if [[ -d $dir ]] && sums "$dir" | cmp -s - "$expected"; then
    return
  fi
  download "$release" "$dir.new"
  accept "$release"
}

# accept moves a download to its place in the cache if its checksums are right.
accept() {
  local release=$1 dir=cache/$1 expected=sums/$1
  if ! sums "$dir.new" | diff "$expected" - >&2; then
    echo "fetch.sh: $release: its files in $dir.new (>) differ from $expected (<)" >&2
    return 1
  fi
  rm -rf "$dir"
  mv "$dir.new" "$dir"
  echo "fetched $release"
}

add() {
  download "$1" "cache/$1.new"
  sums "cache/$1.new" >"sums/$1"
  accept "$1"
}

case ${1-} in
--add)
  shift
  for release; do add "$release"; done
  exit
  ;;
all)
  set -- sums/*
  set -- "${@#sums/}"
  ;;
'') set -- "${default[@]}" ;;
esac
for release; do fetch "$release"; done
