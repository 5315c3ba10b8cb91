package process

import "runtime"

// run keeps one thread for as long as the launcher lives: the kernel sends a child its parent-death signal when the
// thread that started it ends.
func (l *Launcher) run() {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	defer close(l.done)
	for {
		select {
		case f := <-l.jobs:
			f()
		case <-l.stop:
			return
		}
	}
}

// notifyGuard notifies the guard that a process group has been started, or has ended.
func (l *Launcher) notifyGuard(pgid int, alive bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.guardTried && alive {
		l.guardTried = true
		var err error
		if l.guard, err = startGuard(l.id); err != nil {
			l.log.Warn("what models' processes start themselves may outlive a killed server", "err", err)
		}
	}
	if l.guard != nil {
		l.guard.note(pgid, alive)
	}
}
