package get

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// meter shows how far a download is, in one line of a terminal.
type meter struct {
	w     io.Writer                            // nil: nothing is shown
	tell  func(file string, have, whole int64) // nil, or called with all progress
	every time.Duration
	now   func() time.Time

	mu    sync.Mutex // guards the following
	name  string
	since time.Time // the start of this file
	begin int64     // what was there at the start
	last  time.Time
	width int // of the line
}

const mib = 1 << 20

// at tells that a file has so many bytes of whole, which is negative if it is not known.
func (m *meter) at(name string, have, whole int64) {
	if m.tell != nil {
		m.tell(name, have, max(whole, -1))
	}
	if m.w == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if m.name != name {
		m.name, m.since, m.begin = name, now, have
	} else if now.Sub(m.last) < m.every && have != whole {
		return
	}
	m.last = now
	text := fmt.Sprintf("%s: %.1f", name, float64(have)/mib)
	if whole > 0 {
		text += fmt.Sprintf(" of %.1f MiB, %d %%", float64(whole)/mib, have*100/whole)
	} else {
		text += " MiB"
	}
	if s := now.Sub(m.since).Seconds(); s > 0.5 {
		text += fmt.Sprintf(", %.1f MiB/s", float64(have-m.begin)/mib/s)
	}
	fmt.Fprintf(m.w, "\r%-*s", m.width, text)
	m.width = len(text)
}

// end clears the line.
func (m *meter) end() {
	if m.w == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.width > 0 {
		fmt.Fprintf(m.w, "\r%*s\r", m.width, "")
	}
	m.name, m.width = "", 0
}
