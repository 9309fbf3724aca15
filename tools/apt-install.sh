#!/usr/bin/env bash
# Installs Debian packages without prompting and without starting their services: the tests and programs
# start their own. The output of apt is shown only if it fails.
set -uo pipefail

log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1

if apt-get update >"$log" 2>&1 && apt-get install -y --no-install-recommends "$@" >>"$log" 2>&1 </dev/null; then
  exit 0
fi
tail -n 15 "$log" >&2
exit 1
