package shm

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"unicode/utf8"

	"nereid/engine/status"
)

// reservedPrefix begins the names of the memory of Triton's Python backend. Other servers on the machine may have such
// objects, and clients must not get access to them.
const reservedPrefix = "triton_python_backend_shm_region_"

// semaphorePrefix begins the names of POSIX semaphores, which are in the same folder.
const semaphorePrefix = "sem."

const maxObjectName = 255 // bytes of a file's name

// objectName returns the name of the file that shm_open would open for a key, without leading slashes. Keys that are
// not a single element of a path are refused. The texts are Triton's.
func objectName(region, key string) (string, error) {
	name := strings.TrimLeft(key, "/")
	switch {
	case name == "", name == ".", name == "..", len(name) > maxObjectName, strings.ContainsAny(name, "/\x00"),
		!utf8.ValidString(name), strings.HasPrefix(name, semaphorePrefix):
		return "", status.Errorf(status.InvalidArg, "cannot register shared memory region '%s' - invalid shm key '%s'",
			region, strings.ToValidUTF8(clip(key), "?"))
	case strings.HasPrefix(name, reservedPrefix):
		return "", status.Errorf(status.InvalidArg,
			"cannot register shared memory region '%s' with key '%s' as the key contains the reserved prefix '%s'",
			region, key, reservedPrefix)
	}
	return name, nil
}

// clip shortens a text from a client for use in an error.
func clip(s string) string {
	const most = 512
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}

var errShrunk = errors.New("it ends before that")

// bare removes the file's name from an error: clients see names of regions, not of files.
func bare(err error) error {
	var p *fs.PathError
	switch {
	case errors.Is(err, io.EOF):
		return errShrunk
	case errors.As(err, &p):
		return p.Err
	}
	return err
}
