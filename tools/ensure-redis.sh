#!/usr/bin/env bash
# Makes sure that there is a redis-server: as root on Debian it is installed; elsewhere one line says
# what to install.
set -uo pipefail

have() { [ -n "${REDIS_SERVER:-}" ] || command -v redis-server >/dev/null || command -v valkey-server >/dev/null; }

have && exit 0
if [ "${DEPS:-}" != no ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "redis-server is missing, which the tests start: installing Debian's package (DEPS=no forbids this)" >&2
  "$(dirname "$0")/apt-install.sh" redis-server && have && exit 0
fi
echo "redis-server is missing: install it (Debian, Ubuntu: apt-get install redis-server; macOS: brew install redis) or name one in REDIS_SERVER" >&2
exit 1
