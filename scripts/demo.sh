#!/bin/sh
# npm run demo: set-up with npm alone, then the demo. Arguments go to the demo (--once).
set -eu
cd "$(dirname "$0")/.."
sh scripts/setup.sh demo
exec node_modules/.bin/node cmd/sidekerb.ts demo "$@"
