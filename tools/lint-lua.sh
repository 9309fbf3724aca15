#!/usr/bin/env bash
# Our Lua is written from behaviour, not copied. This compares it with the Lua of the npm packages, and fails
# if it finds equal runs of lines.
set -uo pipefail

cd "$(dirname "$0")/.." || exit 1

result=0
for package in bullmq bullmq5; do
  commands=interop/node/node_modules/$package/dist/cjs/commands
  if [ ! -d "$commands" ]; then
    echo "Lua not compared with $package: its package is not installed (make node)" >&2
    continue
  fi
  go run ./tools/comparelua bullmq/scripts "$commands" || result=1
done
exit "$result"
