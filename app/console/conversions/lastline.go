package conversions

import (
	"bytes"
	"strings"
	"sync"
)

const (
	maxLine = 300     // bytes that are shown of a line
	maxKeep = 4 << 10 // bytes of the end that are kept
)

// lastLine tells the last line of what a program writes, and keeps the end of it.
type lastLine struct {
	tell func(line string)

	mu  sync.Mutex
	end []byte
}

// Write implements io.Writer.
func (l *lastLine) Write(p []byte) (int, error) {
	l.mu.Lock()
	l.end = append(l.end, p...)
	l.end = append([]byte(nil), l.end[max(0, len(l.end)-maxKeep):]...)
	whole := l.end[:max(0, bytes.LastIndexByte(l.end, '\n'))]
	l.mu.Unlock()
	line := strings.TrimSpace(string(whole[bytes.LastIndexByte(whole, '\n')+1:]))
	if line != "" {
		l.tell(strings.ToValidUTF8(line[:min(len(line), maxLine)], "?"))
	}
	return len(p), nil
}

// text returns what the last error said: everything after the last line that begins with "error: ", else the last line.
func (l *lastLine) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := strings.TrimSpace(strings.ToValidUTF8(string(l.end), "?"))
	if i := strings.LastIndex("\n"+all, "\nerror: "); i >= 0 {
		return all[i:]
	}
	return all[strings.LastIndexByte(all, '\n')+1:]
}
