//go:build !unix

package listen

import "net"

// connectedPair returns the two ends of a connection inside this process.
func connectedPair() (a, b net.Conn, err error) {
	a, b = net.Pipe()
	return a, b, nil
}
