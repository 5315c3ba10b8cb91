package worker

import (
	"time"

	"nereid/engine/awake"
	"nereid/engine/infer"
)

// A request that is executed in a process makes four threads wait for each other: the server's for the client's, the process's
// for that, and back. Where a core that idles is slow to wake that is most of a brief request's time. While lone requests
// follow each other closely, as those of one busy client on this machine do, the cores are therefore kept awake.

const (
	// briskFirst is how many lone executions must follow each other before the cores are kept awake.
	briskFirst = 16
	// briskGap is the longest time between two of them, and briskStay that once the cores are awake, which shortens it:
	// requests that come by a clock, and from afar, leave more.
	briskGap  = 300 * time.Microsecond
	briskStay = 250 * time.Microsecond
	// briskMost is the longest that an execution takes: the longer it is, the less it matters how long threads take to wake.
	briskMost = 400 * time.Microsecond
)

// brisk watches how executions of one worker follow each other. It belongs to who calls Execute.
type brisk struct {
	keeper waker       // nil: nothing is watched
	began  infer.Stamp // of the last lone execution
	ended  infer.Stamp // 0: there was none
	row    int         // how many have followed each other
}

// waker keeps the cores awake for some time from now.
type waker interface{ Until(time.Duration) }

// KeepAwake has k keep the cores awake while lone requests follow each other closely; nil: nothing does. It is called before the
// first worker starts. The launcher closes k.
func (l *Launcher) KeepAwake(k *awake.Keeper) { l.awake = k }

// watch returns what watches a worker's executions.
func (l *Launcher) watch() brisk {
	if l.awake == nil {
		return brisk{}
	}
	return brisk{keeper: l.awake}
}

// begin notes that an execution of n requests begins.
func (b *brisk) begin(n int) {
	if b.keeper != nil {
		b.begins(infer.Now(), n)
	}
}

// end notes that the execution of n requests is over.
func (b *brisk) end(n int) {
	if b.keeper != nil {
		b.ends(infer.Now(), n)
	}
}

func (b *brisk) begins(now infer.Stamp, n int) {
	if n > 1 { // others wait: the cores have enough to do
		b.row = 0
		return
	}
	gap := briskGap
	if b.row >= briskFirst {
		gap = briskStay
	}
	if b.began = now; b.ended == 0 || time.Duration(now-b.ended) > gap {
		b.row = 0
		return
	}
	if b.row++; b.row >= briskFirst {
		b.keeper.Until(briskMost)
	}
}

func (b *brisk) ends(now infer.Stamp, n int) {
	if n > 1 {
		return
	}
	if b.ended = now; time.Duration(now-b.began) > briskMost {
		b.row = 0
	}
	if b.row >= briskFirst {
		b.keeper.Until(briskStay)
	}
}
