#!/usr/bin/env bash
# Makes sure that there is a C compiler, which Go's race detector needs on most systems: as root on
# Debian it is installed; elsewhere one line says what to install.
set -uo pipefail

have() { command -v "$(go env CC | cut -d' ' -f1)" >/dev/null; }

have && exit 0
if [ "${DEPS:-}" != no ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "a C compiler is missing, which the race detector needs: installing gcc (DEPS=no forbids this)" >&2
  "$(dirname "$0")/apt-install.sh" gcc libc6-dev && have && exit 0
fi
echo "a C compiler is missing, which go test -race needs: install one (Debian, Ubuntu: apt-get install gcc libc6-dev; macOS: xcode-select --install)" >&2
exit 1
