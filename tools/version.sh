#!/bin/bash
# Sets the version of the next release to $1, such as 0.2.0, everywhere in the clone. Without an argument it prints the version.
set -euo pipefail
cd "$(dirname "$0")/.."
module=github.com/zkrecipes/zkrecipes
old=$(sed -n 's/^version = "\(.*\)"$/\1/p' zktest/python/pyproject.toml)
(($#)) || { echo "$old"; exit; }

mapfile -t works < <(git ls-files '*go.work')
sed -i -E "s,($module(/[a-z/]+)?) v${old//./\\.}\b,\1 v$1," "${works[@]}" "${works[@]/%work/mod}" integration/go.mod
sed -i -E "\,^$module(/[a-z/]+)? v,d" "${works[@]/%work/sum}" # the next release has different checksums
sed -i "s/^version = .*/version = \"$1\"/" zktest/python/pyproject.toml
sed -i -E "/<artifactId>zktest-junit</{n;s,<version>.*<,<version>$1<,}" zktest/java/pom.xml zktest/java/README.md
