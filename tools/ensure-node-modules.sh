#!/usr/bin/env bash
# Makes sure that interop/node has the packages that its lock file names, and installs them if they
# are missing or older than it. npm writes node_modules/.package-lock.json when all are in place.
set -uo pipefail

cd "$(dirname "$0")/../interop/node" || exit 1

for program in node npm; do
  if ! command -v "$program" >/dev/null; then
    echo "$program is missing: install Node.js 18 or later with npm (Debian, Ubuntu: apt-get install nodejs npm)" >&2
    exit 1
  fi
done
installed=node_modules/.package-lock.json
[ -f "$installed" ] && ! [ package-lock.json -nt "$installed" ] && exit 0
if [ "${DEPS:-}" = no ]; then
  echo "the packages of interop/node are missing or out of date: run npm ci --ignore-scripts there (DEPS=no forbids to do it here)" >&2
  exit 1
fi
echo "the packages of interop/node, the Node side of the tests, are missing or out of date: installing them by npm ci (DEPS=no forbids this)" >&2
npm ci --ignore-scripts --no-progress >&2 </dev/null && exit 0
echo "the packages of interop/node could not be installed: run npm ci there, with access to an npm registry" >&2
exit 1
