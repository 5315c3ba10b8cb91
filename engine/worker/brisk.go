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
	// briskFirst is how many lone executions must follow each other before the cores are kept awake. One that comes late or takes
	// long, as one of some dozens does on a machine that others use too, takes briskMiss of them back, down to briskLast before
	// the cores sleep; briskAll is how many are counted.
	briskFirst = 16
	briskMiss  = 4
	briskLast  = 8
	briskAll   = 24
	// briskGap is the longest time between two of them, and briskStay that once the cores are awake, which shortens it:
	// requests that come by a clock, and from afar, leave more.
	briskGap  = 300 * time.Microsecond
	briskStay = 250 * time.Microsecond
	// briskMost is the longest that an execution takes: the longer it is, the less it matters how long threads take to wake.
	briskMost = 400 * time.Microsecond
	// briskPause is a time between two that tells of another client, or of the same one doing something else.
	briskPause = 10 * time.Millisecond
)

// brisk watches how executions of one worker follow each other. It belongs to who calls Execute.
type brisk struct {
	keeper waker       // nil: nothing is watched
	began  infer.Stamp // of the last lone execution
	ended  infer.Stamp // 0: there was none
	row    int         // how many have followed each other, less what was taken back
	awake  bool        // the cores are kept awake
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
		b.row, b.awake = 0, false
		return
	}
	most := briskGap
	if b.awake {
		most = briskStay
	}
	gap := time.Duration(now - b.ended)
	switch b.began = now; {
	case b.ended == 0, gap > briskPause:
		b.row, b.awake = 0, false
	case gap > most:
		b.miss()
	default:
		b.row = min(b.row+1, briskAll)
		b.awake = b.awake || b.row >= briskFirst
	}
	if b.awake {
		b.keeper.Until(briskMost)
	}
}

func (b *brisk) ends(now infer.Stamp, n int) {
	if n > 1 {
		return
	}
	if b.ended = now; time.Duration(now-b.began) > briskMost {
		b.miss()
	}
	if b.awake {
		b.keeper.Until(briskStay)
	}
}

// miss notes an execution that came late or took long.
func (b *brisk) miss() {
	if b.row -= briskMiss; b.row < briskLast && b.awake || b.row < 0 {
		b.row, b.awake = 0, false
	}
}
