//go:build !unix

package httpapi

// hungUp cannot tell on this system; the handler finds out when it writes.
func (c *conn) hungUp() bool { return false }
