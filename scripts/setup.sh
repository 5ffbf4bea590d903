#!/bin/sh
# Prepares a checkout, and does nothing when that was done before.
#
#   sh scripts/setup.sh demo    the npm packages
#   sh scripts/setup.sh test    Debian packages, then the npm packages with kerberos among them
#
# Needs a POSIX shell, Node 18 or later and npm. Debian packages are installed by root only; anybody
# else is told the one line to run. Package registries are never named in the output.
set -eu

mode=${1:-test}
case $mode in demo | test) ;; *) echo "usage: setup.sh demo|test" >&2; exit 64 ;; esac
cd "$(dirname "$0")/.."

say() { echo "sidekerb set-up: $*"; }
fail() { say "$*" >&2; exit 1; }

# The Node that runs npm, not the one that this project brings: npm replaces the latter while it works.
old_node=${npm_node_execpath:-}
if [ -z "$old_node" ]; then
  outside=$(echo "$PATH" | tr ':' '\n' | grep -v 'node_modules/\.bin$' | tr '\n' ':')
  old_node=$(PATH=$outside command -v node) || fail "Node is missing: install Node 18 or later with npm"
fi
old_version=$("$old_node" --version)
case $old_version in
  v[0-9].* | v1[0-7].*) fail "Node $old_version is too old to run npm here: 18 or later is needed" ;;
esac
PATH=$(dirname "$old_node"):$PATH

log=$(mktemp) || exit 1
lock=.setup.lock
policy=/usr/sbin/policy-rc.d
policy_mark='# sidekerb set-up: temporary'
holds_lock=no

clean_up() {
  rm -f "$log"
  if [ -f "$policy" ] && grep -qxF "$policy_mark $$" "$policy" 2>/dev/null; then rm -f "$policy"; fi
  if [ "$holds_lock" = yes ]; then rm -rf "$lock"; fi
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Two set-ups in one checkout would remove each other's node_modules. A lock whose holder died is taken over.
take_lock() {
  [ -w . ] || fail "$PWD is not writable, and its npm packages are not installed"
  waited=0
  until mkdir "$lock" 2>/dev/null; do
    holder=$(cat "$lock/pid" 2>/dev/null || echo)
    if [ -n "$holder" ] && ! kill -0 "$holder" 2>/dev/null; then
      rm -rf "$lock"
      continue
    fi
    [ "$waited" -lt 600 ] || fail "another set-up has held $lock for ten minutes; remove it if none runs"
    [ "$waited" -gt 0 ] || say "waiting for another set-up in this checkout"
    waited=$((waited + 1))
    sleep 1
  done
  holds_lock=yes
  echo $$ >"$lock/pid"
}

# Runs a command quietly; on failure the end of its output is shown without addresses.
quietly() {
  if "$@" >"$log" 2>&1; then return 0; fi
  tail -n 25 "$log" | sed -E 's#[a-z]+://[^ "]*#(address)#g' >&2
  return 1
}

missing_packages() {
  wanted=$(sed -e '/^#/d' -e 's/ .*//' scripts/debian-packages.txt)
  # node-gyp needs the headers of some Node; kerberos uses only the stable Node-API.
  if [ -z "$(header_prefix)" ]; then wanted="$wanted libnode-dev"; fi
  for package in $wanted; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || echo none)
    [ "$state" = installed ] || printf '%s ' "$package"
  done
}

# A fresh Debian starts every daemon that it installs. Where the machine has no policy of its own,
# one that refuses stands for as long as this installation runs.
hold_daemons() {
  if [ -f "$policy" ]; then
    old=$(sed -n "s/^$policy_mark //p" "$policy")
    if [ -z "$old" ] || kill -0 "$old" 2>/dev/null; then return 0; fi
    rm -f "$policy"
  fi
  ( set -C; printf '#!/bin/sh\n%s %s\nexit 101\n' "$policy_mark" "$$" >"$policy" ) 2>/dev/null || return 0
  chmod 755 "$policy"
}

# Installs the named packages as root; tells anybody else the line to run, and answers false.
apt_install() {
  if [ "$(id -u)" != 0 ]; then
    say "not root: run this for what is missing: sudo apt-get install -y --no-install-recommends $*"
    return 1
  fi
  say "installing from Debian: $*"
  export DEBIAN_FRONTEND=noninteractive
  hold_daemons
  quietly apt-get -o DPkg::Lock::Timeout=300 update || say "apt-get update failed; going on with the lists at hand"
  quietly apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$@" ||
    fail "Debian packages could not be installed"
}

install_debian() {
  packages=$(missing_packages)
  if [ -z "$packages" ]; then return 0; fi
  # shellcheck disable=SC2086  # a list of package names
  apt_install $packages || say "going on: checks that need them are skipped"
}

# The prefix whose include/node has the headers that node-gyp compiles against, or nothing.
header_prefix() {
  running=$("$old_node" -p 'require("path").resolve(require("fs").realpathSync(process.execPath), "../..")')
  for prefix in "${npm_config_nodedir:-}" "$running" /usr; do
    if [ -n "$prefix" ] && [ -f "$prefix/include/node/node_api.h" ]; then
      echo "$prefix"
      return 0
    fi
  done
}

has_build_tools() {
  for tool in g++ make python3; do command -v "$tool" >/dev/null 2>&1 || return 1; done
  [ -f /usr/include/gssapi/gssapi.h ] || [ -f /usr/local/include/gssapi/gssapi.h ] ||
    [ "$(uname -s)" = Darwin ]
}

kerberos_loads() { node_modules/.bin/node -e 'require("kerberos")' >/dev/null 2>&1; }

# What the installed tree depends on: the lock file and the Node that ran npm.
tree_stamp() { echo "$(cksum <package-lock.json) $old_version"; }

tree_is_current() {
  [ -x node_modules/.bin/node ] && [ -f node_modules/.sidekerb-setup ] || return 1
  { read -r stamp && read -r tools; } <node_modules/.sidekerb-setup || return 1
  [ "$stamp" = "$(tree_stamp)" ] || return 1
  # npm leaves an optional package out when it cannot be built. Another try makes sense once the tools are there.
  if [ "$tools" = no ] && [ "$mode" = test ] && has_build_tools; then return 1; fi
  node_modules/.bin/node --version >/dev/null 2>&1
}

# The Node of the npm package needs one library that a minimal Debian does not have.
ensure_node_runs() {
  if node_modules/.bin/node --version >"$log" 2>&1; then return 0; fi
  if grep -q 'libatomic\.so' "$log" && command -v apt-get >/dev/null 2>&1 && apt_install libatomic1; then
    return 0
  fi
  quietly node_modules/.bin/node --version || fail "the Node of the npm packages does not run on this machine"
}

npm_ci() {
  # Debian's node-gyp links addons to the library of Debian's own Node, and another Node crashes on
  # that; an empty archive of the same name, found first, keeps the library out.
  if command -v ar >/dev/null 2>&1; then
    ar rcs "$lock/libnode.a"
    export LDFLAGS="-L$PWD/$lock ${LDFLAGS:-}"
  fi
  npm_cli=${npm_execpath:-$(readlink -f "$(command -v npm)")}
  PATH=$(dirname "$1"):$PATH quietly "$1" "$npm_cli" ci --no-audit --no-fund || fail "npm ci failed"
}

install_npm() {
  if tree_is_current; then return 0; fi
  take_lock
  # Another set-up may have done it while this one waited.
  if tree_is_current; then return 0; fi
  say "installing the npm packages"
  prefix=$(header_prefix)
  if [ -n "$prefix" ]; then export npm_config_nodedir="$prefix"; fi
  tools=no
  if has_build_tools; then tools=yes; fi
  npm_ci "$old_node"
  [ -x node_modules/.bin/node ] || fail "npm ci left out the package node"
  ensure_node_runs
  # npm leaves out what does not support the Node that it runs on, and kerberos needs 20.19. A second
  # pass runs npm on the Node that the first one brought; a link keeps that alive meanwhile.
  if [ "$tools" = yes ] && ! kerberos_loads; then
    new_node=$(node_modules/.bin/node -p process.execPath)
    ln "$new_node" "$lock/node" 2>/dev/null || cp "$new_node" "$lock/node"
    npm_ci "$PWD/$lock/node"
  fi
  printf '%s\n%s\n' "$(tree_stamp)" "$tools" >node_modules/.sidekerb-setup
}

if [ "$mode" = test ]; then
  if command -v dpkg-query >/dev/null 2>&1; then
    install_debian
  else
    say "not Debian: checks that need these are skipped where they are absent: $(sed -e '/^#/d' -e 's/ .*//' scripts/debian-packages.txt | tr '\n' ' ')"
  fi
fi
install_npm
if ! kerberos_loads; then
  say "the optional package kerberos is absent: NTLM works, Kerberos does not"
  if [ "$mode" = test ] && [ "${CI:-}" = true ]; then fail "kerberos must load under CI=true"; fi
fi
