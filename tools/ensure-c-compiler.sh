#!/usr/bin/env bash
# Ensures that there is a C compiler, which Go's race detector needs on most systems. Installs it as root
# on Debian, and otherwise prints what to install.
set -uo pipefail

have() { command -v "$(go env CC | cut -d' ' -f1)" >/dev/null; }

have && exit 0
if [ "${DEPS:-}" != no ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing gcc because the race detector needs a C compiler (DEPS=no disables this)" >&2
  "$(dirname "$0")/apt-install.sh" gcc libc6-dev && have && exit 0
fi
echo "go test -race needs a C compiler: install one (Debian, Ubuntu: apt-get install gcc libc6-dev; macOS: xcode-select --install)" >&2
exit 1
