// A pair of ends that carry TCP through wireguard-go's netstack (gVisor), as `causeway-bench intercept ways` compares them with
// ours: client → plain TCP → dialling end → WireGuard → listening end → plain TCP → server.
//
//	wireguard-netstack listen KEY PEER UDP-PORT SERVER-ADDRESS
//	wireguard-netstack dial KEY PEER ENDPOINT LISTEN-ADDRESS
//
// Keys are in hexadecimal, as wireguard-go takes them.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/netip"
	"os"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun/netstack"
)

const (
	mtu  = 1420
	port = 80
)

var (
	listener = netip.MustParseAddr("10.8.0.1")
	dialler  = netip.MustParseAddr("10.8.0.2")
)

func main() {
	if len(os.Args) != 6 {
		log.Fatal("wireguard-netstack listen|dial KEY PEER PORT|ENDPOINT ADDRESS")
	}
	role, key, peer, place, address := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	own, other := listener, dialler
	if role == "dial" {
		own, other = dialler, listener
	}
	tun, network, err := netstack.CreateNetTUN([]netip.Addr{own}, nil, mtu)
	check(err)
	wireguard := device.NewDevice(tun, conn.NewDefaultBind(), device.NewLogger(device.LogLevelError, ""))
	settings := fmt.Sprintf("private_key=%s\n", key)
	if role == "listen" {
		settings += fmt.Sprintf("listen_port=%s\n", place)
	}
	settings += fmt.Sprintf("public_key=%s\nallowed_ip=%s/32\n", peer, other)
	if role == "dial" {
		settings += fmt.Sprintf("endpoint=%s\n", place)
	}
	check(wireguard.IpcSet(settings))
	check(wireguard.Up())
	var incoming net.Listener
	var onward func() (net.Conn, error)
	if role == "dial" {
		incoming, err = net.Listen("tcp", address)
		onward = func() (net.Conn, error) {
			return network.DialTCPAddrPort(netip.AddrPortFrom(other, port))
		}
	} else {
		incoming, err = network.ListenTCPAddrPort(netip.AddrPortFrom(own, port))
		onward = func() (net.Conn, error) { return net.Dial("tcp", address) }
	}
	check(err)
	for {
		near, err := incoming.Accept()
		check(err)
		go func() {
			far, err := onward()
			if err != nil {
				near.Close()
				return
			}
			go carry(near, far)
			carry(far, near)
		}()
	}
}

// Carries one way, and its end.
func carry(to, from net.Conn) {
	io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 256<<10))
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
	from.Close()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
