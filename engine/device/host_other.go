//go:build !linux

package device

// Host knows nothing on this system yet.
func Host() HostUse { return HostUse{} }
