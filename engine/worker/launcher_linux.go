package worker

import (
	"os"
	"runtime"
)

// run lives on one thread for as long as the launcher: the kernel sends a child its parent-death signal when the thread
// that started it ends.
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

// watched tells the guard of a process group, or that it has ended.
func (l *Launcher) watched(pgid int, alive bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.tried && alive {
		l.tried = true
		var err error
		if l.guard, err = startGuard(); err != nil {
			l.log.Warn("what models' processes start themselves may outlive a killed server", "err", err)
		}
	}
	if l.guard != nil {
		l.guard.note(pgid, alive)
	}
}

// guard is a shell that kills the workers' process groups when the server is gone, however it went. The workers
// themselves die by the kernel's signal; what they have started does not.
type guard struct {
	pipe *os.File
	proc *os.Process
}

// guardScript reads "+ group" and "- group" lines until the server's end of the pipe is closed.
const guardScript = `trap '' HUP INT TERM PIPE
all=' '
while read -r how group; do
  case $how in
    +) all="$all$group " ;;
    -) all="${all%% $group *} ${all#* $group }" ;;
  esac
done
for group in $all; do kill -s KILL -- "-$group" 2>/dev/null; done
exit 0`
