#!/usr/bin/env bash
# Installs Debian packages without a question and without starting their services: the tests and
# programs here start their own. What apt says is shown only when it fails.
set -uo pipefail

log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1

if apt-get update >"$log" 2>&1 && apt-get install -y --no-install-recommends "$@" >>"$log" 2>&1 </dev/null; then
  exit 0
fi
tail -n 15 "$log" >&2
exit 1
