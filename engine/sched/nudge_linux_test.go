package sched

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fires reports whether the kernel's timer of a nudge expires.
func fires(t *testing.T, n *nudge) bool {
	t.Helper()
	p := []unix.PollFd{{Fd: int32(n.fd), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(p, 60_000); err == nil {
			return p[0].Revents&unix.POLLIN != 0
		} else if !errors.Is(err, unix.EINTR) {
			t.Fatal(err)
		}
	}
}

func TestANudgeFiresEachTimeAndClosesItsDescriptor(t *testing.T) {
	var n nudge
	for range 2 {
		if n.after(100 * time.Microsecond); !fires(t, &n) {
			t.Fatal("the timer does not expire")
		}
	}
	n.close()
	if n.file != nil {
		t.Error("the descriptor stays")
	}
	n.close() // does nothing
	if n.after(time.Hour); n.file != nil {
		t.Error("a long wait takes a descriptor")
	}
}

// A batch that waits for its queue delay sets the timer, and the scheduler's end gives it back.
func TestAQueueDelayUsesANudge(t *testing.T) {
	d := NewDynamic(Policy{MaxBatchSize: 8, MaxQueueDelay: 100 * time.Microsecond})
	enqueue(t, d, 1)
	b, err := d.Next(context.Background(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	finish(b)
	if len(d.waiters.spare) != 1 || d.waiters.spare[0].nudge.file == nil || !fires(t, &d.waiters.spare[0].nudge) {
		t.Error("the wait for the batch set no timer")
	}
	d.Close()
	if _, err := d.Next(context.Background(), 0, nil); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if d.waiters.spare[0].nudge.file != nil {
		t.Error("the descriptor stays when the scheduler has ended")
	}
}
