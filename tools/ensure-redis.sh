#!/usr/bin/env bash
# Ensures that there is a redis-server. Installs it as root on Debian, and otherwise prints what to
# install.
set -uo pipefail

have() { [ -n "${REDIS_SERVER:-}" ] || command -v redis-server >/dev/null || command -v valkey-server >/dev/null; }

have && exit 0
if [ "${DEPS:-}" != no ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing redis-server because the tests need it (DEPS=no disables this)" >&2
  "$(dirname "$0")/apt-install.sh" redis-server && have && exit 0
fi
echo "redis-server is missing: install it (Debian, Ubuntu: apt-get install redis-server; macOS: brew install redis) or name one in REDIS_SERVER" >&2
exit 1
