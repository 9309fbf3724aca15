#!/usr/bin/env bash
# Prints lines that contain the address of a package registry or a directory of the author's machine.
# Both differ between machines and must not be in the repository.
set -uo pipefail

cd "$(dirname "$0")/.." || exit 1

files() {
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files -z --cached --others --exclude-standard
  else
    find . -type d \( -name node_modules -o -name .git \) -prune -o -type f -print0
  fi
}

found=0
show() { # message, pattern
  if files | xargs -0 grep -nIHE --exclude=lint-text.sh -e "$2" -- 2>/dev/null; then
    echo "lint: $1" >&2
    found=1
  fi
}

show 'a lock file names the address of a package (npm can leave it out: omit-lockfile-registry-resolved)' \
  '"resolved":|^[[:space:]]*resolved[[:space:]]+"'
show 'an address of a package registry' \
  'https?://[^/[:space:]"]*(registry|mirror|goproxy|proxy\.[a-z]+\.)|(GOPROXY|registry)[[:space:]]*=[[:space:]]*"?https?:'
show 'a directory of the machine that this was written on' \
  '(^|[^[:alnum:]_.~)}/-])/(work|root|home/[[:alnum:]]+|Users/[[:alnum:]]+|tmp/[[:alnum:]]+)/'
exit "$found"
