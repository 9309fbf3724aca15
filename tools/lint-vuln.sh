#!/usr/bin/env bash
# Checks that the packages call nothing with a known vulnerability, in Go or in modules. Prints a message
# and succeeds if the database is unreachable. GOVULNDB selects a database other than vuln.go.dev.
set -uo pipefail

cd "$(dirname "$0")/.." || exit 1

log=$(mktemp)
trap 'rm -f "$log"' EXIT
go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 -db "${GOVULNDB:-https://vuln.go.dev}" work >"$log" 2>&1
result=$?
if [ "$result" != 0 ] && grep -qE 'fetching vulnerabilities|dial tcp|no such host|connection refused|i/o timeout|proxyconnect' "$log" && ! grep -q '^Vulnerability #' "$log"; then
  echo "vulnerabilities not checked: the database is unreachable ($(grep -m 1 "^govulncheck:" "$log" | cut -c1-200))" >&2
  exit 0
fi
[ "$result" = 0 ] || cat "$log" >&2
exit "$result"
