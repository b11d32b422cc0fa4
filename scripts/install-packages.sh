#!/usr/bin/env bash
# Installs the Debian packages named as arguments; for other systems it says what to install. Nothing to do without any.
set -euo pipefail

[ $# -gt 0 ] || exit 0
if ! command -v apt-get >/dev/null; then
  echo "please install: $*" >&2
  exit 1
fi
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
$sudo env DEBIAN_FRONTEND=noninteractive apt-get update -q
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$@"
