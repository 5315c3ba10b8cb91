package catalog

import "sync"

// modelLocks are locks by model name.
type modelLocks struct {
	mu    sync.Mutex
	locks map[string]*modelLock // guarded by mu
}

type modelLock struct {
	sync.Mutex
	users int // guarded by modelLocks.mu
}

func (l *modelLocks) lock(name string) (unlock func()) {
	l.mu.Lock()
	if l.locks == nil {
		l.locks = map[string]*modelLock{}
	}
	m := l.locks[name]
	if m == nil {
		m = &modelLock{}
		l.locks[name] = m
	}
	m.users++
	l.mu.Unlock()
	m.Lock()
	return func() {
		m.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if m.users--; m.users == 0 {
			delete(l.locks, name)
		}
	}
}
