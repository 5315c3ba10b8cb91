// Package listen opens the sockets of the server: its endpoints, connections inside the process, and listeners whose
// connections end with them. A Guard limits the connections of a net/http server and the time that clients may hang.
package listen

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Listeners are the sockets of the endpoints that are on, by the name of the endpoint.
type Listeners map[string]net.Listener

// Close closes all. The server of a listener may have closed it before.
func (l Listeners) Close() {
	for _, x := range l {
		_ = x.Close()
	}
}

// Open binds every endpoint or none. For the errors see Endpoint.Open.
func (l *Endpoints) Open() (Listeners, error) {
	all := Listeners{}
	var errs []error
	for _, e := range l.All() {
		if !e.On {
			continue
		}
		l, err := e.Open()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all[e.Name] = l
	}
	if err := errors.Join(errs...); err != nil {
		all.Close()
		return nil, err
	}
	return all, nil
}

// Open binds the endpoint. The error for a port in use names the process that has it, if it can be found, and a free
// port.
func (e *Endpoint) Open() (net.Listener, error) {
	config := net.ListenConfig{}
	if e.Shared {
		config.Control = sharePort
	}
	l, err := config.Listen(context.Background(), e.network(), e.hostPort(e.Port))
	if errors.Is(err, syscall.EADDRINUSE) && e.OrFree {
		l, err = net.Listen(e.network(), e.hostPort(0))
	}
	if err != nil {
		return nil, e.describe(err)
	}
	return l, nil
}

// network returns the network of net.Listen, with which 0.0.0.0 does not include the addresses of IPv6.
func (e *Endpoint) network() string {
	if ip, known := e.ip(); known && ip == netip.IPv4Unspecified() {
		return "tcp4"
	}
	return "tcp"
}

func (e *Endpoint) hostPort(port int) string {
	return net.JoinHostPort(strings.Trim(e.Address, "[]"), strconv.Itoa(port))
}

// describe completes the error of a listener that could not be opened.
func (e *Endpoint) describe(err error) error {
	address := e.hostPort(e.Port)
	if !errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("failed to start %s at %s: %w", e.Title, address, err)
	}
	holder, free := "", ""
	if name := portHolder(e.Port); name != "" {
		holder = " by " + name
	}
	if l, err := net.Listen(e.network(), e.hostPort(0)); err == nil {
		_ = l.Close() // only its number is needed
		port := l.Addr().(*net.TCPAddr).Port
		if e.Whole { // the option is an address that others are told, so its port should be a fixed one
			free = fmt.Sprintf("; say --%s=%s (free now)", e.Option, e.hostPort(port))
		} else {
			free = fmt.Sprintf("; say --%[1]s=%[2]d (free now) or --%[1]s=0", e.Option, port)
		}
	}
	return fmt.Errorf("failed to start %s: Unavailable - Socket '%s' already in use%s%s", e.Title, address, holder,
		free)
}

// portHolder names the process that listens on a TCP port, as "name (pid 12)". It returns "" if this user may not see
// the process. Source: /proc/net/tcp and the socket links in /proc/<pid>/fd.
func portHolder(port int) string {
	inode := ""
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if inode = listeningInode(table, port); inode != "" {
			break
		}
	}
	if inode == "" {
		return ""
	}
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return ""
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err != nil || target != "socket:["+inode+"]" {
			continue
		}
		pid := strings.Split(link, "/")[2]
		name, err := os.ReadFile("/proc/" + pid + "/comm")
		if err != nil {
			return "process " + pid
		}
		return strings.TrimSpace(string(name)) + " (pid " + pid + ")"
	}
	return ""
}

func listeningInode(table string, port int) string {
	f, err := os.Open(table)
	if err != nil {
		return ""
	}
	defer f.Close() // read only
	want := fmt.Sprintf(":%04X", port)
	for s := bufio.NewScanner(f); s.Scan(); {
		// sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode; state 0A is LISTEN
		fields := strings.Fields(s.Text())
		if len(fields) > 9 && strings.HasSuffix(fields[1], want) && fields[3] == "0A" {
			return fields[9]
		}
	}
	return ""
}
