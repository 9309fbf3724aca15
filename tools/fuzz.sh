#!/usr/bin/env bash
# Runs each fuzz target of the packages for FUZZTIME (30s by default), one after the other. Go writes a
# failing input to testdata/fuzz next to the test. Fix it and commit the input.
set -uo pipefail

cd "$(dirname "$0")/.." || exit 1

result=0
for package in $(go list "${@:-work}"); do
  for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz'); do
    echo "$package $target"
    # Limit minimization: with goroutines, the coverage of an input varies between runs.
    go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-30s}" -fuzzminimizetime 20x "$package" | grep -v 'gathering baseline' || result=1
  done
done
exit "$result"
