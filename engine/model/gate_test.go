package model

import (
	"sync"
	"testing"
)

func newGate() *gate { return &gate{drained: make(chan struct{})} }

func (g *gate) isDrained() bool {
	select {
	case <-g.drained:
		return true
	default:
		return false
	}
}

func TestHoldsKeepAGateOpenForTheirHolders_A068(t *testing.T) {
	g := newGate()
	if !g.Hold() || !g.Idle() || g.Running() != 0 {
		t.Fatal("a hold counts as a request")
	}
	g.shut()
	if g.isDrained() || g.Acquire() || !g.Hold() {
		t.Fatal("a closing gate is open to all, or not to holders")
	}
	g.Unhold()
	if !g.acquireHeld() || g.Running() != 1 {
		t.Fatal("a holder cannot enter")
	}
	g.Unhold()
	if g.isDrained() || g.Hold() {
		t.Fatal("without holds, the request does not keep the gate from being drained, or it admits another hold")
	}
	g.leave()
	if !g.isDrained() {
		t.Fatal("the gate is not drained")
	}
}

func TestDroppedHolds_A068(t *testing.T) {
	g := newGate()
	g.Hold()
	g.shut()
	g.acquireHeld()
	g.DropHolds()
	if g.isDrained() || g.acquireHeld() || g.Hold() {
		t.Fatal("the gate does not wait for its request, or admits others")
	}
	g.leave()
	if !g.isDrained() {
		t.Fatal("the gate waits for a hold that was dropped")
	}
	g.Unhold()
}

// Nobody enters a drained gate, whatever happens at once.
func TestGateUnderLoad_A068(t *testing.T) {
	for range 200 {
		g := newGate()
		var wg sync.WaitGroup
		enter := func(ok bool) {
			if !ok {
				return
			}
			if g.isDrained() {
				t.Error("a request is in a drained gate")
			}
			g.leave()
		}
		for range 4 {
			wg.Go(func() {
				for range 20 {
					if g.Hold() {
						enter(g.acquireHeld())
						enter(g.Acquire())
						g.Unhold()
					}
					enter(g.Acquire())
				}
			})
		}
		g.shut()
		<-g.drained
		wg.Wait()
		if g.Acquire() || g.Hold() || g.Running() != 0 {
			t.Error("a drained gate admits requests")
		}
	}
}
