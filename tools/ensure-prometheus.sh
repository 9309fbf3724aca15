#!/usr/bin/env bash
# Ensures that there are prometheus and promtool. Installs them as root on Debian, and otherwise prints
# what to install.
set -uo pipefail

have() { command -v prometheus >/dev/null && command -v promtool >/dev/null; }

have && exit 0
if [ "${DEPS:-}" != no ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing prometheus because its test needs it (DEPS=no disables this)" >&2
  "$(dirname "$0")/apt-install.sh" prometheus && have && exit 0
fi
echo "prometheus or promtool is missing: install it (Debian, Ubuntu: apt-get install prometheus; macOS: brew install prometheus)" >&2
exit 1
