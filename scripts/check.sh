#!/bin/sh
# npm run check: format check, lint, types, then every test; stops at the first that fails.
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/node_modules/.bin:$PATH
prettier --check --log-level warn .
oxlint --type-aware cmd src test bench scripts deploy
tsc --noEmit
exec sh scripts/run-tests.sh all
