package service

import (
	"fmt"
	"net"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Notifier reports states to the service manager, with the protocol of sd_notify(3). A nil Notifier does nothing. Its
// methods may be called concurrently.
type Notifier struct {
	socket   string
	watchdog time.Duration // 0: none
}

// FromEnvironment returns the notifier of the process pid. It is nil if no service manager waits for states.
func FromEnvironment(lookup func(string) (string, bool), pid int) *Notifier {
	socket, _ := lookup("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	n := &Notifier{socket: socket}
	if of, ok := lookup("WATCHDOG_PID"); ok && of != strconv.Itoa(pid) {
		return n
	}
	text, _ := lookup("WATCHDOG_USEC")
	if usec, err := strconv.ParseInt(text, 10, 64); err == nil && usec > 0 {
		n.watchdog = time.Duration(usec) * time.Microsecond
	}
	return n
}

// WatchdogInterval is how often WATCHDOG=1 is due, half of the manager's limit; 0: never.
func (n *Notifier) WatchdogInterval() time.Duration {
	if n == nil {
		return 0
	}
	return n.watchdog / 2
}

// sendLimit is how long a manager may let its socket be full.
const sendLimit = time.Second

// Send sends assignments such as READY=1, one a line. It gives up after a second.
func (n *Notifier) Send(state string) error {
	if n == nil {
		return nil
	}
	// A leading @ is an abstract address to package net too.
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(sendLimit)); err != nil {
		return err
	}
	_, err = conn.Write([]byte(state))
	return err
}

// Stopping is the state of a server that stops, which takes at most limit.
func Stopping(limit time.Duration) string {
	return fmt.Sprintf("STOPPING=1\nEXTEND_TIMEOUT_USEC=%d", limit.Microseconds())
}

// Reloading is the state of a server that reads its options again. READY=1 must follow.
func Reloading() string {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return "RELOADING=1"
	}
	return fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", now.Nano()/1000)
}
