#!/bin/sh
# Builds the root tree of the container image: Node, the shared libraries that it and kerberos load,
# the daemon, its npm packages, and nothing else. No shell, no package manager.
#
#   sh deploy/rootfs.sh FOLDER        in a checkout whose npm packages are installed
#
# The Dockerfile and the test of the image run this same script. Debian only: libraries are taken
# from the packages of this machine, which are listed in the tree with their versions and licences.
set -eu

out=${1:?usage: rootfs.sh FOLDER}
PATH=$PATH:/usr/sbin:/sbin # ldconfig and chroot, for users other than root
cd "$(dirname "$0")/.."
node=$PWD/node_modules/.bin/node
id=65532 # the user of the image; any other works too, without the warm compile cache

[ ! -e "$out" ] || { echo "rootfs.sh: $out exists already" >&2; exit 1; }
[ -x "$node" ] || { echo "rootfs.sh: the npm packages are not installed (npm ci)" >&2; exit 1; }
mkdir -p "$out"
out=$(cd "$out" && pwd)
umask 022
mkdir -p "$out/usr/bin" "$out/app" "$out/etc/sidekerb" "$out/etc/ssl/certs" "$out/run/secrets" \
  "$out/usr/share/doc" "$out/usr/share/sidekerb" "$out/var/cache/sidekerb" "$out/var/lib/sidekerb" \
  "$out/dev" "$out/proc" "$out/tmp"
chmod 1777 "$out/tmp"

# 1. Node
cp "$(readlink -f "$node")" "$out/usr/bin/node"

# 2. The daemon and its packages
cp -R cmd src package.json LICENSE "$out/app/"
"$node" deploy/production-packages.ts | while read -r package; do
  mkdir -p "$out/app/$package"
  # Nested packages come by their own line.
  tar -C "$package" --exclude=./node_modules -cf - . | tar -C "$out/app/$package" -xf -
done
# What is left of compiling kerberos.
kerberos=$out/app/node_modules/kerberos
if [ -d "$kerberos" ]; then
  find "$kerberos/build" -type f ! -name '*.node' -delete
  rm -rf "$kerberos/build/Release/obj.target" "$kerberos/build/Release/.deps" "$kerberos/src" "$kerberos/binding.gyp"
  find "$kerberos/build" -type d -empty -delete
fi
find "$out/app" \( -name '*.d.ts' -o -name '*.d.mts' -o -name '*.d.cts' -o -name '*.map' \) -type f -delete

# 3. Shared libraries: what the linker names, and what kerberos opens by name at run time
libraries() {
  for binary in "$out/usr/bin/node" $(find "$out/app" -name '*.node') "$@"; do
    ldd "$binary" | sed -n -e 's/.*=> \(\/[^ ]*\) .*/\1/p' -e 's/^[[:space:]]*\(\/[^ ]*\) .*/\1/p'
  done
  for library in "$@"; do echo "$library"; done
}
cached_library() { ldconfig -p | sed -n "s/^[[:space:]]*$1 (.*x86-64.*) => //p; s/^[[:space:]]*$1 (.*AArch64.*) => //p" | head -n 1; }
opened=
if [ -d "$kerberos" ]; then
  for name in libgssapi_krb5.so.2 libkrb5.so.3 libcom_err.so.2; do
    path=$(cached_library "$name")
    [ -n "$path" ] || { echo "rootfs.sh: $name is missing (package libgssapi-krb5-2)" >&2; exit 1; }
    opened="$opened $path"
  done
fi
# shellcheck disable=SC2086  # a list of paths
libraries $opened | sort -u | while read -r library; do
  mkdir -p "$out$(dirname "$library")"
  cp -L "$library" "$out$library"
  real=$(readlink -f "$library")
  dpkg-query -S "$real" 2>/dev/null || dpkg-query -S "${real#/usr}" 2>/dev/null || dpkg-query -S "$library" 2>/dev/null || true
done | sed -e 's/:[^:]*$//' -e 's/:.*//' | sort -u >"$out/usr/share/sidekerb/packages"
while read -r package; do
  mkdir -p "$out/usr/share/doc/$package"
  cp -L "/usr/share/doc/$package/copyright" "$out/usr/share/doc/$package/" 2>/dev/null || true
  dpkg-query -W -f '${Package} ${Version}\n' "$package"
done <"$out/usr/share/sidekerb/packages" | sort -u >"$out/usr/share/sidekerb/debian-packages"
rm "$out/usr/share/sidekerb/packages"

# 4. Names, resolver and trust
printf 'root:x:0:0:root:/:/sbin/nologin\nsidekerb:x:%s:%s:sidekerb:/app:/sbin/nologin\n' "$id" "$id" >"$out/etc/passwd"
printf 'root:x:0:\nsidekerb:x:%s:\n' "$id" >"$out/etc/group"
printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$out/etc/nsswitch.conf"
if [ -r /etc/ssl/certs/ca-certificates.crt ]; then
  cp -L /etc/ssl/certs/ca-certificates.crt "$out/etc/ssl/certs/"
fi

# 5. Compiled code, so that a container starts in the time of a second start
if [ "$(id -u)" = 0 ]; then
  chown "$id:$id" "$out/var/cache/sidekerb" "$out/var/lib/sidekerb"
  NODE_COMPILE_CACHE=/var/cache/sidekerb chroot --userspec="$id:$id" "$out" \
    /usr/bin/node /app/cmd/sidekerb.ts version >/dev/null
fi
