#!/usr/bin/env bash
# Ensures that there is a Chromium (or the program of CHROMIUM), and the fonts with which the pages are
# compared. Installs them as root on Debian, and otherwise prints what to install.
set -uo pipefail

fonts=/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf
have() {
  { [ -n "${CHROMIUM:-}" ] || command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null && [ -f "$fonts" ]
}

have && exit 0
if [ "${DEPS:-}" != no ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing chromium because the tests of the dashboard's pages need it (DEPS=no disables this)" >&2
  "$(dirname "$0")/apt-install.sh" chromium fonts-dejavu-core && have && exit 0
fi
echo "chromium or its fonts are missing: install both (Debian: apt-get install chromium fonts-dejavu-core), or set CHROMIUM to the program" >&2
exit 1
