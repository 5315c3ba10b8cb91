//go:build cuda && linux && amd64

package cuda

import (
	"fmt"

	"gorgonia.org/cu"

	"nereid/engine/gpumem"
)

var _ gpumem.Driver = (*Driver)(nil)

// Pin implements gpumem.Driver. The memory belongs to the context of the first GPU, and all can use it.
func (d *Driver) Pin(n int) (uintptr, func() error, error) {
	return d.take(0, func() (uintptr, error) { return pin(n) }, unpin)
}

// Allocate implements gpumem.Driver.
func (d *Driver) Allocate(gpu, n int) (uintptr, func() error, error) {
	return d.take(gpu, func() (uintptr, error) { return allocate(n) }, release)
}

// take allocates memory in a GPU's context, which is retained until the memory is freed.
func (d *Driver) take(
	gpu int, get func() (uintptr, error), put func(uintptr) error,
) (address uintptr, free func() error, err error) {
	p, err := d.retain(int64(gpu))
	if err != nil {
		return 0, nil, err
	}
	if err = p.in(func() error { address, err = get(); return err }); err != nil {
		d.release(p)
		return 0, nil, named(err)
	}
	return address, func() error {
		err := p.in(func() error { return put(address) })
		d.release(p)
		return named(err)
	}, nil
}

// Copy implements gpumem.Driver. Concurrent calls do not wait for each other's copies.
func (d *Driver) Copy(gpu int, list []gpumem.Copy) error {
	p, err := d.retain(int64(gpu))
	if err != nil {
		return err
	}
	defer d.release(p)
	err = p.in(func() error {
		s, err := p.stream()
		if err != nil {
			return err
		}
		defer p.keep(s)
		return copyWithin(list, s)
	})
	if err != nil {
		return fmt.Errorf("copies within GPU %d: %w", gpu, named(err))
	}
	for _, c := range list {
		d.within.Add(int64(c.Size))
	}
	return nil
}

// Traffic implements gpumem.Driver.
func (d *Driver) Traffic() gpumem.Traffic {
	return gpumem.Traffic{ToHost: d.toHost.Load(), FromHost: d.fromHost.Load(), Within: d.within.Load()}
}

// stream returns an unused stream. The context must be the current one.
func (p *primary) stream() (cu.Stream, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.streams); n > 0 {
		s := p.streams[n-1]
		p.streams = p.streams[:n-1]
		return s, nil
	}
	s, err := cu.MakeStream(cu.NonBlocking)
	if err != nil {
		return s, fmt.Errorf("no stream can be made on the GPU: %w", of(err))
	}
	return s, nil
}

// keep keeps a stream for the next copy.
func (p *primary) keep(s cu.Stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams = append(p.streams, s)
}

// dropStreams destroys the kept streams.
func (p *primary) dropStreams() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.streams {
		if serr := p.streams[i].Destroy(); serr != nil {
			err = of(serr)
		}
	}
	p.streams = nil
	return err
}
