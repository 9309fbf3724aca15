#!/usr/bin/env bash
# Our Lua is written from behaviour, not copied. Where the program that compares it with the
# reference's is at hand (OWN_LUA names it) and so is the reference, it must find nothing.
set -uo pipefail

cd "$(dirname "$0")/.." || exit 1

packages=interop/node/node_modules
if [ ! -f "${OWN_LUA:-}" ] || [ ! -d "$packages/bullmq" ] || ! command -v node >/dev/null; then
  echo "Lua not compared: that takes OWN_LUA, Node.js and the packages of interop/node" >&2
  exit 0
fi
result=0
for reference in bullmq bullmq5; do
  node "$OWN_LUA" bullmq/scripts "$packages/$reference/dist/cjs/commands" || result=1
done
exit "$result"
