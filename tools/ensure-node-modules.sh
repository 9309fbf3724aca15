#!/usr/bin/env bash
# Ensures that the packages in interop/node's lock file are installed and up to date. npm writes
# node_modules/.package-lock.json when the installation is complete.
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
  echo "the packages of interop/node are missing or out of date: run npm ci --ignore-scripts there (DEPS=no disables the installation here)" >&2
  exit 1
fi
echo "installing the packages of interop/node with npm ci because they are missing or out of date (DEPS=no disables this)" >&2
npm ci --ignore-scripts --no-progress >&2 </dev/null && exit 0
echo "the packages of interop/node could not be installed: run npm ci there, with access to an npm registry" >&2
exit 1
