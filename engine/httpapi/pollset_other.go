//go:build !linux

package httpapi

import (
	"errors"
	"runtime"
)

// pollSet is built for Linux only: elsewhere an idle connection keeps its goroutine.
type pollSet struct{}

func newPollSet() (*pollSet, error) {
	return nil, errors.New("connections are not parked on " + runtime.GOOS)
}

func (p *pollSet) add(int) error        { return nil }
func (p *pollSet) remove(int)           {}
func (p *pollSet) wait() ([]int, error) { return nil, errors.New("not built") }
func (p *pollSet) close()               {}
