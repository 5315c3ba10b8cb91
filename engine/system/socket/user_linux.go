package socket

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// errNoUser is returned for a socket that is not there, or that no process has open any more.
var errNoUser = errors.New("no process of this machine has the other end")

// PeerUser returns the user whose process opened the other end of a loopback TCP connection. It is false for other
// connections, for one that its client has closed, and for a user that this process cannot tell from others. c may be
// nil. Source: sock_diag(7); where that is not allowed, /proc/net/tcp and tcp6.
func PeerUser(c net.Conn) (uid int, known bool) {
	raw, err := descriptor(c)
	if err != nil {
		return 0, false
	}
	here, ok := tcpAddress(c.LocalAddr())
	there, ok2 := tcpAddress(c.RemoteAddr())
	if !ok || !ok2 || !there.Addr().IsLoopback() {
		return 0, false
	}
	if uid, err = askKernel(there, here); err != nil {
		uid, err = searchTables(there, here)
	}
	// This comes last. After a reset, another client may have got the same port, and it is the one that was found.
	return uid, err == nil && !isOverflow(uid) && isConnected(raw)
}

// isConnected reports whether no other connection can have had the addresses of this one until now.
func isConnected(raw syscall.RawConn) bool {
	var info *unix.TCPInfo
	var err error
	if cerr := raw.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}); cerr != nil || err != nil {
		return false
	}
	switch info.State {
	case established, finWait1, finWait2, closeWait:
		return true
	}
	return false
}

func tcpAddress(a net.Addr) (netip.AddrPort, bool) {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, false
	}
	at := tcp.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port()), at.IsValid()
}

// isOverflow reports whether uid may stand for users that the user namespace of this process does not know.
func isOverflow(uid int) bool {
	const overflow = 65534
	if uid != overflow {
		return false
	}
	ids, err := os.ReadFile("/proc/self/uid_map")
	return err != nil || strings.Join(strings.Fields(string(ids)), " ") != "0 0 4294967295"
}

// States of a socket whose process may still send. In other states the kernel may give a socket that no process has
// open to root.
const (
	established = 1
	finWait1    = 4
	finWait2    = 5
	closeWait   = 8 // it may still send, but its peer may not
)

func isOpen(state, inode uint64) bool {
	return inode != 0 && (state == established || state == finWait1 || state == finWait2)
}

// askKernel returns the user of the socket with these addresses. Format: struct inet_diag_req_v2 and inet_diag_msg of
// linux/inet_diag.h.
func askKernel(local, remote netip.AddrPort) (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return 0, err
	}
	native := binary.NativeEndian
	const header, request, answer = 16, 56, 72
	var b [1024]byte
	native.PutUint32(b[0:], header+request)
	native.PutUint16(b[4:], unix.SOCK_DIAG_BY_FAMILY)
	native.PutUint16(b[6:], unix.NLM_F_REQUEST)
	b[16], b[17] = unix.AF_INET, unix.IPPROTO_TCP
	if local.Addr().Is6() {
		b[16] = unix.AF_INET6
	}
	native.PutUint32(b[20:], 1<<established|1<<finWait1|1<<finWait2)
	binary.BigEndian.PutUint16(b[24:], local.Port())
	binary.BigEndian.PutUint16(b[26:], remote.Port())
	copy(b[28:], local.Addr().AsSlice())
	copy(b[44:], remote.Addr().AsSlice())
	native.PutUint64(b[64:], ^uint64(0)) // any cookie
	if err := unix.Sendto(fd, b[:header+request], 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	n, from, err := unix.Recvfrom(fd, b[:], 0)
	if err != nil {
		return 0, err
	}
	kernel, ok := from.(*unix.SockaddrNetlink)
	switch {
	case !ok || kernel.Pid != 0, n < header+answer, native.Uint16(b[4:]) != unix.SOCK_DIAG_BY_FAMILY,
		!isOpen(uint64(b[17]), uint64(native.Uint32(b[84:]))):
		return 0, errNoUser
	}
	return int(native.Uint32(b[80:])), nil
}

// searchTables is askKernel by the text tables, which need time for all connections of the machine.
func searchTables(local, remote netip.AddrPort) (int, error) {
	for _, table := range []struct {
		path   string
		mapped bool // addresses of IPv4 are written as those of IPv6
	}{{"/proc/net/tcp", false}, {"/proc/net/tcp6", true}} {
		f, err := os.Open(table.path)
		if err != nil {
			continue // there is no IPv6, or no /proc
		}
		uid, err := searchTable(f, inTable(local, table.mapped), inTable(remote, table.mapped))
		_ = f.Close() // only read
		if err == nil {
			return uid, nil
		}
	}
	return 0, errNoUser
}

// inTable returns an address as the tables have it: words of 32 bits in the order of the machine.
func inTable(a netip.AddrPort, mapped bool) string {
	ip := a.Addr().AsSlice()
	if mapped {
		whole := a.Addr().As16()
		ip = whole[:]
	}
	var out strings.Builder
	for ; len(ip) > 0; ip = ip[4:] {
		fmt.Fprintf(&out, "%08X", binary.NativeEndian.Uint32(ip))
	}
	fmt.Fprintf(&out, ":%04X", a.Port())
	return out.String()
}

// searchTable reads lines "sl local remote state tx:rx tr:tm retrnsmt uid timeout inode …".
func searchTable(table io.Reader, local, remote string) (int, error) {
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		if !bytes.Contains(lines.Bytes(), []byte(local)) {
			continue
		}
		f := strings.Fields(lines.Text())
		if len(f) < 10 || f[1] != local || f[2] != remote {
			continue
		}
		state, err := strconv.ParseUint(f[3], 16, 8)
		inode, err2 := strconv.ParseUint(f[9], 10, 64)
		uid, err3 := strconv.ParseUint(f[7], 10, 31)
		if err := errors.Join(err, err2, err3); err != nil {
			return 0, err
		}
		if isOpen(state, inode) {
			return int(uid), nil
		}
	}
	return 0, errors.Join(lines.Err(), errNoUser)
}

// UnixPeer returns the user whose process opened the other end of a Unix socket.
func UnixPeer(raw syscall.RawConn) (uid int, known bool) {
	var ucred *unix.Ucred
	var err error
	if cerr := raw.Control(func(fd uintptr) {
		ucred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); cerr != nil || err != nil {
		return 0, false
	}
	return int(ucred.Uid), true
}
