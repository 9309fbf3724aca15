#!/usr/bin/env bash
# Runs each fuzz target of the packages for a time (FUZZTIME, 30s unless set), one after the other. What
# a target finds is written into testdata/fuzz beside its test, to be mended and committed.
set -uo pipefail

cd "$(dirname "$0")/.." || exit 1

result=0
for package in $(go list "${@:-work}"); do
  for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz'); do
    echo "$package $target"
    # Few tries to make a finding smaller: whether one is interesting is up to the moment where goroutines are at work.
    go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-30s}" -fuzzminimizetime 20x "$package" | grep -v 'gathering baseline' || result=1
  done
done
exit "$result"
