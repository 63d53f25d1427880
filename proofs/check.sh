#!/bin/bash
# Checks the models with Spin, and each of them again without each of its premises, which must yield a counterexample. With -w it writes
# the results into README.md.
set -euo pipefail
cd "$(dirname "$0")"
page=README.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What is checked: model, title, definitions, and the premises that are removed in turn.
runs=(
  "deadline|the same timeout everywhere|-DSHORT=16 -DWINDOW=5|1 2 3 4 5 6 7 13"
  "deadline|another timeout on each server|-DWINDOW=4|8 9 10 11 12"
  "queue|three contenders and a fault|-DFAULTS=1|1 2 3 4 5 6 7 8 9 10 11 12 13 14"
  "record|values||1 6 7 8 9"
  "record|counters|-DCOUNTER|2 3 4 5"
  "shard|three members and a fault|-DMEMBERS=3 -DFAULTS=1|1 2 3 4 5 6 8 9 10 12"
  "shard|two members and two faults|-DMEMBERS=2 -DFAULTS=2|7 11 13"
)

# search MODEL OFF DEFINITIONS FLAGS searches in the current folder and sets errors, states and seconds.
search() {
  local model=$1 off=$2 definitions=$3 flags=$4
  # shellcheck disable=SC2086
  spin -DOFF="$off" $definitions -a "$proofs/$model.pml"
  # shellcheck disable=SC2086
  gcc -w -DSAFETY -DNOFAIR -DCOLLAPSE -DMEMLIM=3000 $flags -o pan pan.c
  ends=
  [ "$model" = queue ] || ends=-E # a deadlock is a fault only in a queue
  ./pan -m100000 -w20 $ends >out
  errors=$(sed -n 's/.*errors: //p' out)
  states=$(sed -n 's/ *\([0-9.e+]*\) states, stored.*/\1/p' out | head -1)
  seconds=$(sed -n 's/.*elapsed time \([0-9.]*\) .*/\1/p' out)
  if grep -qE 'max search depth too small|out of memory' out; then
    echo "$model: the search is not complete" >&2
    exit 1
  fi
}

# trail MODEL OFF DEFINITIONS prints the counterexample in the current folder, in the words of the model.
trail() {
  # shellcheck disable=SC2086
  spin -DOFF="$2" $3 -t -T -k "$1.pml.trail" "$proofs/$1.pml" | sed 's/^[ \t]*//' |
    grep -vE '^(#proc|spin:|queue |[0-9]+ proc|[a-z]+(\[[0-9]+\])?(\.[a-z]+(\[[0-9]+\])?)? = )|^[0-9]+:\s+proc|^$|\.pml:'
}

# check FOLDER MODEL TITLE DEFINITIONS OFF checks a model, without the premise OFF unless that is 0, and leaves its part of the page in
# the folder.
check() {
  set -euo pipefail
  local model=$2 title=$3 definitions=$4 off=$5 name premise line
  mkdir "$1"
  cd "$1"
  if [ "$off" = 0 ]; then
    search "$model" 0 "$definitions" -O2
    printf '%-9s %-32s %9s states %6s s\n' "$model" "$title" "$states" "$seconds"
    echo "| \`$model.pml\`, $title | $states | $seconds |" >table
    [ "$errors" = 0 ] || { trail "$model" 0 "$definitions"; echo "$model, $title: fails as above"; exit 1; }
    return
  fi
  line=$(grep -E "^#define [A-Z]+ +\(OFF != $off\)" "$proofs/$model.pml")
  name=$(awk '{ print $2 }' <<<"$line")
  premise=$(sed 's/.*\/\* //; s/ \*\/.*//' <<<"$line")
  search "$model" "$off" "$definitions" "-O0 $shortest"
  printf '%-9s without %-24s %9s states %6s s\n' "$model" "$name" "$states" "$seconds"
  [ "$errors" != 0 ] || { echo "$model: without it the model must fail: $premise"; exit 1; }
  {
    printf '\n**`%s` without `%s`**: %s.\n\n```text\n' "$model" "$name" "$premise"
    trail "$model" "$off" "$definitions"
    # Without a violated assertion, the counterexample leads to a deadlock.
    ! grep -q 'invalid end state (' out || echo 'from here on, no process can proceed'
    echo '```'
  } >trails
}
export -f search trail check
export proofs=$PWD
export shortest= # the page gets the shortest counterexamples, which take ten times as many states to find
[ "${1:-}" != -w ] || shortest=-DBFS

failed=0
n=100
for run in "${runs[@]}"; do
  IFS='|' read -r model title definitions premises <<<"$run"
  for off in 0 $premises; do
    printf '%s\0' "$work/$((n++))" "$model" "$title" "$definitions" "$off"
  done
done | xargs -0 -n5 -P"$(nproc)" bash -c 'check "$@"' check || failed=1
for model in deadline queue record shard; do # no premise is left out
  for off in $(grep -oP '^#define [A-Z]+ +\(OFF != \K\d+' "$model.pml"); do
    printf '%s\n' "${runs[@]}" | grep "^$model|" | cut -d'|' -f4 | grep -qw "$off" || { echo "$model: premise $off is never removed"; failed=1; }
  done
done
if [ "${1:-}" = -w ]; then
  {
    printf '%s\n' '| model | states | seconds |' '| --- | --- | --- |'
    cat "$work"/*/table
  } >"$work/table"
  cat "$work"/*/trails >"$work/trails"
  awk -v table="$work/table" -v trails="$work/trails" '
    function paste(file, line) { while ((getline line < file) > 0) print line }
    /<!-- end of/ { skip = 0 }
    !skip
    /<!-- table/ { print ""; paste(table); print ""; skip = 1 }
    /<!-- counterexamples/ { paste(trails); print ""; skip = 1 }
  ' "$page" >"$work/page"
  cp "$work/page" "$page"
fi
exit "$failed"
