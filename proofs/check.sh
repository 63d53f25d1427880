#!/bin/bash
# Checks the models with Spin, and each of them again without each premise: that must give a counterexample. With -w it writes what it
# has found into README.md.
set -euo pipefail
cd "$(dirname "$0")"
page=README.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What is checked: model, title, definitions, and the premises that are taken away there.
runs=(
  "deadline|the same timeout everywhere|-DSHORT=16 -DWINDOW=5|1 2 3 4 5 6 7 13"
  "deadline|another timeout on each server|-DWINDOW=4|8 9 10 11 12"
  "queue|three contenders and a fault|-DFAULTS=1|1 2 3 4 5 6 7 8 9 10 11 12 13 14"
  "record|values||1 6 7 8 9"
  "record|counters|-DCOUNTER|2 3 4 5"
  "shard|three members and a fault|-DMEMBERS=3 -DFAULTS=1|1 2 3 4 5 6 8 9 10 12"
  "shard|two members and two faults|-DMEMBERS=2 -DFAULTS=2|7 11 13"
)

# search MODEL OFF DEFINITIONS FLAGS: sets errors, states and seconds.
search() {
  local model=$1 off=$2 definitions=$3 flags=$4
  (
    cd "$work"
    rm -f ./*.trail
    # shellcheck disable=SC2086
    spin -DOFF="$off" $definitions -a "$OLDPWD/$model.pml"
    # shellcheck disable=SC2086
    gcc -w -DSAFETY -DNOFAIR -DCOLLAPSE -DMEMLIM=3000 $flags -o pan pan.c
    ends=
    [ "$model" = queue ] || ends=-E # only in a queue, to stand still is a fault
    ./pan -m100000 -w20 $ends >out
  )
  errors=$(sed -n 's/.*errors: //p' "$work/out")
  states=$(sed -n 's/ *\([0-9.e+]*\) states, stored.*/\1/p' "$work/out" | head -1)
  seconds=$(sed -n 's/.*elapsed time \([0-9.]*\) .*/\1/p' "$work/out")
  if grep -qE 'max search depth too small|out of memory' "$work/out"; then
    echo "$model: the search is not complete" >&2
    exit 1
  fi
}

# trail MODEL OFF DEFINITIONS: the counterexample, as the model prints it.
trail() {
  # shellcheck disable=SC2086
  spin -DOFF="$2" $3 -t -T -k "$work/$1.pml.trail" "$1.pml" | sed 's/^[ \t]*//' |
    grep -vE '^(#proc|spin:|queue |[0-9]+ proc|[a-z]+(\[[0-9]+\])?(\.[a-z]+(\[[0-9]+\])?)? = )|^[0-9]+:\s+proc|^$|\.pml:'
}

{
  echo '| model | states | seconds |'
  echo '| --- | --- | --- |'
} >"$work/table"
: >"$work/trails"
failed=0
for run in "${runs[@]}"; do
  IFS='|' read -r model title definitions premises <<<"$run"
  search "$model" 0 "$definitions" -O2
  printf '%-9s %-32s %9s states %6s s\n' "$model" "$title" "$states" "$seconds"
  echo "| \`$model.pml\`, $title | $states | $seconds |" >>"$work/table"
  if [ "$errors" != 0 ]; then
    echo "  fails:"
    trail "$model" 0 "$definitions"
    failed=1
  fi
  for off in $premises; do
    line=$(grep -E "^#define [A-Z]+ +\(OFF != $off\)" "$model.pml")
    name=$(awk '{ print $2 }' <<<"$line")
    premise=$(sed 's/.*\/\* //; s/ \*\/.*//' <<<"$line")
    search "$model" "$off" "$definitions" '-O0 -DBFS'
    printf '  without %-10s %9s states %6s s\n' "$name" "$states" "$seconds"
    if [ "$errors" = 0 ]; then
      echo "  without it the model must fail: $premise"
      failed=1
      continue
    fi
    {
      printf '\n**`%s` without `%s`**: %s.\n\n```text\n' "$model" "$name" "$premise"
      trail "$model" "$off" "$definitions"
      # The trail of a counterexample without a violated assertion is one to a state from which nothing goes on.
      grep -q 'invalid end state (' "$work/out" && echo 'from here on, nobody can go on'
      echo '```'
    } >>"$work/trails"
  done
done
for model in deadline queue record shard; do # no premise is forgotten
  for off in $(grep -oP '^#define [A-Z]+ +\(OFF != \K\d+' "$model.pml"); do
    printf '%s\n' "${runs[@]}" | grep "^$model|" | cut -d'|' -f4 | grep -qw "$off" || { echo "$model: premise $off is not taken away"; failed=1; }
  done
done
if [ "${1:-}" = -w ]; then
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
