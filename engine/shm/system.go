package shm

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"unicode/utf8"

	"nereid/engine/status"
)

// reservedPrefix begins the names that Triton's Python backend gives its own memory. Other servers on the machine may have
// such objects; clients must not reach them through this one.
const reservedPrefix = "triton_python_backend_shm_region_"

// semaphorePrefix begins the names under which POSIX semaphores lie beside the shared memory. No memory object is one.
const semaphorePrefix = "sem."

const maxObjectName = 255 // bytes of a file's name

// objectName returns the name of the file that shm_open would open for a key: without the slashes before it. It is one
// element of a path, and no other key is taken. The texts are Triton's.
func objectName(region, key string) (string, error) {
	name := strings.TrimLeft(key, "/")
	switch {
	case name == "", name == ".", name == "..", len(name) > maxObjectName, strings.ContainsAny(name, "/\x00"),
		!utf8.ValidString(name), strings.HasPrefix(name, semaphorePrefix):
		return "", status.Errorf(status.InvalidArg, "cannot register shared memory region '%s' - invalid shm key '%s'",
			region, strings.ToValidUTF8(clip(key), "?"))
	case strings.HasPrefix(name, reservedPrefix):
		return "", status.Errorf(status.InvalidArg,
			"cannot register shared memory region '%s' with key '%s' as the key contains the reserved prefix '%s'", region, key, reservedPrefix)
	}
	return name, nil
}

// clip keeps a text that a client sent from filling the answer.
func clip(s string) string {
	const most = 512
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}

var errShrunk = errors.New("it ends before that")

// bare takes the file's name out of an error: answers name regions, not files.
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
