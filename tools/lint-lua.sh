#!/usr/bin/env bash
# Our Lua is written from behaviour, not copied. If OWN_LUA names the program that compares it with the
# reference's Lua, and the reference is installed, the program must find nothing.
set -uo pipefail

cd "$(dirname "$0")/.." || exit 1

packages=interop/node/node_modules
if [ ! -f "${OWN_LUA:-}" ] || [ ! -d "$packages/bullmq" ] || ! command -v node >/dev/null; then
  echo "Lua not compared: the comparison needs OWN_LUA, Node.js and the packages of interop/node" >&2
  exit 0
fi
result=0
for reference in bullmq bullmq5; do
  node "$OWN_LUA" bullmq/scripts "$packages/$reference/dist/cjs/commands" || result=1
done
exit "$result"
