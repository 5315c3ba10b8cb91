package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// listeners are the sockets of the endpoints that are on, by option name: "grpc", "http", "metrics", "ui".
type listeners map[string]net.Listener

func (l listeners) close() {
	for _, x := range l {
		_ = x.Close() // they serve nobody yet, or their server has closed them
	}
}

// listen binds every endpoint or none. A busy port is an error that names its holder, if that can be found, and a free
// port.
func listen(c *Config) (listeners, error) {
	all := listeners{}
	var errs []error
	for _, e := range c.endpoints() {
		if !e.on {
			continue
		}
		host := strings.Trim(e.address, "[]")
		config := net.ListenConfig{}
		if e.reuse {
			config.Control = reusePort
		}
		l, err := config.Listen(context.Background(), "tcp", net.JoinHostPort(host, strconv.Itoa(e.port)))
		if errors.Is(err, syscall.EADDRINUSE) && e.option == "ui" && c.AsTriton && c.given["ui-port"] == "" {
			l, err = net.Listen("tcp", net.JoinHostPort(host, "0")) // Triton has no GUI: its port is nothing to fail for
		}
		if err != nil {
			errs = append(errs, describeBusy(e, err))
			continue
		}
		all[e.option] = l
	}
	if err := errors.Join(errs...); err != nil {
		all.close()
		return nil, err
	}
	return all, nil
}

func describeBusy(e endpoint, err error) error {
	address := net.JoinHostPort(strings.Trim(e.address, "[]"), strconv.Itoa(e.port))
	if !errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("failed to start %s at %s: %w", e.what, address, err)
	}
	holder := ""
	if name := portHolder(e.port); name != "" {
		holder = " by " + name
	}
	free := ""
	if p := freePort(e.address); p != 0 {
		free = fmt.Sprintf("; say --%s-port=%d (free now) or --%s-port=0", e.option, p, e.option)
	}
	return fmt.Errorf("failed to start %s: Unavailable - Socket '%s' already in use%s%s", e.what, address, holder, free)
}

// sharedPort reads whether a port is shared, where the system can.
func sharedPort(field func(*Config) *bool) func(*Config, string) error {
	return func(c *Config, v string) error {
		if err := boolean(field)(c, v); err != nil || !*field(c) || canReusePorts {
			return err
		}
		return fmt.Errorf("sharing a port between servers is not supported on %s", runtime.GOOS)
	}
}

func freePort(address string) int {
	l, err := net.Listen("tcp", net.JoinHostPort(strings.Trim(address, "[]"), "0"))
	if err != nil {
		return 0
	}
	defer l.Close() // it was only asked for its number
	return l.Addr().(*net.TCPAddr).Port
}

// portHolder names the process that listens on a TCP port, as "name (pid 12)"; "" if it is not ours to see. Source:
// /proc/net/tcp and the socket links in /proc/<pid>/fd.
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
