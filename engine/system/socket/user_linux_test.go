package socket

import (
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
)

// Each way to the answer knows the user of an open connection, and nobody for a closed one: the kernel gives such a
// socket to root.
func TestPeerUser(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Skipf("no IPv6 here: %v", err)
		}
		defer l.Close()
		at := l.Addr().String()
		if address == "[::]:0" { // IPv4 at a listener of both
			at = strings.Replace(at, "[::]", "127.0.0.1", 1)
		}
		client, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		here, _ := tcpAddress(server.LocalAddr())
		there, _ := tcpAddress(server.RemoteAddr())
		ways := map[string]func(a, b netip.AddrPort) (int, error){"sock_diag": askKernel, "tables": searchTables}
		for name, ask := range ways {
			if uid, err := ask(there, here); err != nil || uid != os.Getuid() {
				t.Errorf("%s, %s: %d, %v; want %d", at, name, uid, err, os.Getuid())
			}
		}
		if uid, known := PeerUser(server); !known || uid != os.Getuid() {
			t.Errorf("%s: %d %v", at, uid, known)
		}
		if _, known := PeerUser(remoteConn{server}); known {
			t.Error("a user of another machine is known")
		}
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
		if err := server.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		_, _ = server.Read(make([]byte, 1)) // until the client's end has arrived
		for name, ask := range ways {
			if uid, err := ask(there, here); err == nil {
				t.Errorf("%s, %s: a closed connection is that of user %d", at, name, uid)
			}
		}
	}
}

// remoteConn is a connection that seems to come from another machine.
type remoteConn struct{ net.Conn }

func (c remoteConn) NetConn() net.Conn  { return c.Conn }
func (remoteConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 9} }

// A client that resets its connection leaves its port to the next one. The server may read the request only then, and
// must not take it for one of the next client's user.
func TestPeerUserOfAResetConnection_H15(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	// Other programs take ports of 127.0.0.1 at any time.
	own := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}
	first, err := own.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Write([]byte("request")); err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	port := first.LocalAddr()
	if err := first.(*net.TCPConn).SetLinger(0); err != nil { // Close resets
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := (&net.Dialer{LocalAddr: port}).Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if n, err := server.Read(make([]byte, 10)); n != 7 {
		t.Fatalf("the request of the first client: %d bytes, %v", n, err)
	}
	if uid, known := PeerUser(server); known {
		t.Errorf("the request of a client that has gone is one of user %d, who has its port now", uid)
	}
	next, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if uid, known := PeerUser(next); !known || uid != os.Getuid() {
		t.Errorf("the second client: %d %v", uid, known)
	}
}

// FuzzTable: no table makes the search fail otherwise than with an error, or name a user of a socket that nobody has.
func FuzzTable(f *testing.F) {
	const line = " 1: 0100007F:1F43 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1000 0 77 1\n"
	for _, seed := range []string{line, strings.Replace(line, " 77 ", " 0 ", 1),
		strings.Replace(line, " 01 ", " 0A ", 1), "", " 1: 0100007F:1F43"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, table string) {
		uid, err := searchTable(strings.NewReader(table), "0100007F:1F43", "0100007F:9C40")
		if err == nil && (uid < 0 || !strings.Contains(table, "0100007F:1F43")) {
			t.Errorf("%d of %q", uid, table)
		}
	})
}
