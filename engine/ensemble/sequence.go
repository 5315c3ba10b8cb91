package ensemble

import (
	"slices"
	"strings"

	"nereid/engine/infer"
)

// place is the place of a request in its sequence. The requests of a sequence call the model of each step in the order
// in which the ensemble got them, however long earlier steps take.
type place struct {
	id infer.CorrelationID
	// called has a channel for each step. It is closed, and nil, once the request has called the model of the step, or
	// has finished. Guarded by Graph.mu.
	called []chan struct{}
}

// join puts a request behind those of its sequence that have not finished. It returns nil for a request without a
// sequence.
func (g *Graph) join(r *infer.Request) *place {
	if r.Correlation.IsZero() {
		return nil
	}
	p := &place{id: r.Correlation, called: make([]chan struct{}, len(g.steps))}
	p.id.Text = strings.Clone(p.id.Text) // the memory of the request is used again
	for i := range p.called {
		p.called[i] = make(chan struct{})
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sequences[p.id] = append(g.sequences[p.id], p)
	return p
}

// leave removes a request that has finished from its sequence.
func (g *Graph) leave(p *place) {
	if p == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range p.called {
		p.close(i)
	}
	rest := slices.DeleteFunc(g.sequences[p.id], func(q *place) bool { return q == p })
	if g.sequences[p.id] = rest; len(rest) == 0 {
		delete(g.sequences, p.id)
	}
}

// close lets later requests call step i. Graph.mu is held.
func (p *place) close(i int) {
	if c := p.called[i]; c != nil {
		close(c)
		p.called[i] = nil
	}
}

// awaitTurn waits until the earlier requests of the sequence have called the model of step i, or have finished. It
// returns false if the request is cancelled before.
func (x *run) awaitTurn(i int) bool {
	for x.place != nil {
		earlier := x.g.earlier(x.place, i)
		if earlier == nil {
			break
		}
		select {
		case <-earlier:
		case <-x.r.Done():
			return false
		}
	}
	return true
}

// earlier returns the channel of a request before p that has not called step i yet, or nil.
func (g *Graph) earlier(p *place, i int) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, q := range g.sequences[p.id] {
		switch {
		case q == p:
			return nil
		case q.called[i] != nil:
			return q.called[i]
		}
	}
	return nil
}

// passTurn says that the request has called the model of step i. In an ensemble with a decoupled step it may call it
// again, so later requests wait until it has finished.
func (x *run) passTurn(i int) {
	if x.place == nil || slices.ContainsFunc(x.fits, func(f fit) bool { return f.decoupled }) {
		return
	}
	x.g.mu.Lock()
	defer x.g.mu.Unlock()
	x.place.close(i)
}
