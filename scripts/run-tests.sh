#!/bin/sh
# Runs the tests of one folder of test/, or of all with the name `all`. Further arguments go to node --test.
# A run that executes no test fails: node --test itself ends with 0 when a pattern matches nothing.
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/node_modules/.bin:$PATH
part=$1
shift
case $part in
  all) files='test/**/*.test.ts' ;;
  *) files="test/$part/**/*.test.ts" ;;
esac
# The servers of the lab are started once and shared by all test files that ask for them.
case $part in all | lab | browser) set -- --test-global-setup=./test/lab/global-setup.ts "$@" ;; esac
cores=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# --test-timeout cannot end a file whose tests are over while a socket of theirs is still open.
limit=
if command -v timeout >/dev/null 2>&1; then limit='timeout --foreground --kill-after=20 900'; fi
# shellcheck disable=SC2086  # a command and its options
exec $limit node --test \
  --test-concurrency=$((cores + 1)) \
  --test-timeout=120000 \
  --test-reporter=spec --test-reporter-destination=stdout \
  --test-reporter=./scripts/executed-tests.ts --test-reporter-destination=stderr \
  "$@" "$files"
