package device

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// tick is the unit of /proc/stat: USER_HZ is 100 on every architecture that Go runs on.
const tick = 10 * time.Millisecond

// idleTime reads the idle time of all cores together. Source of the format: proc(5), /proc/stat.
func idleTime() (time.Duration, bool) {
	f, err := os.Open("/proc/stat")
	if err != nil {
		return 0, false
	}
	defer f.Close() // read only
	var line [256]byte
	n, err := f.Read(line[:])
	if err != nil {
		return 0, false
	}
	return parseIdle(line[:n])
}

// parseIdle reads the fourth and fifth figures of the line "cpu": idle, and waiting for a disk.
func parseIdle(b []byte) (time.Duration, bool) {
	b, _, _ = bytes.Cut(b, []byte("\n"))
	f := bytes.Fields(b)
	if len(f) < 6 || string(f[0]) != "cpu" {
		return 0, false
	}
	idle, err1 := strconv.ParseInt(string(f[4]), 10, 62)
	disk, err2 := strconv.ParseInt(string(f[5]), 10, 62)
	if err1 != nil || err2 != nil {
		return 0, false
	}
	return time.Duration(idle+disk) * tick, true
}
