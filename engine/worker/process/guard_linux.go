package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// guard is a shell that outlives the server. When the server has ended, for whatever reason, it kills the process
// groups, and what the processes have started in other groups; see kin_linux.go. The kernel kills the processes
// themselves.
type guard struct {
	pipe *os.File
	proc *os.Process
}

// guardScript reads "+ group" and "- group" lines until the server's end of the pipe is closed. Its argument is the
// beginning of the variable that the processes and their children have.
const guardScript = `trap '' HUP INT TERM PIPE
all=' '
while read -r how group; do
  case $how in
    +) all="$all$group " ;;
    -) all="${all%% $group *} ${all#* $group }" ;;
  esac
done
[ "$all" = ' ' ] && exit 0
for group in $all; do kill -s KILL -- "-$group" 2>/dev/null; done
for p in /proc/[0-9]*; do
  tr '\0' '\n' <$p/environ | grep -q "^$1" && kill -s KILL "${p#/proc/}"
done 2>/dev/null
exit 0`

// startGuard starts the guard of a launcher with this id.
func startGuard(id string) (*guard, error) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		return nil, fmt.Errorf("there is no shell to watch over them: %w", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close() // the child's
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	defer null.Close() // nothing is written
	p, err := os.StartProcess(shell, []string{"nereid-guard", "-c", guardScript, "nereid-guard", idVar + "=" + id},
		&os.ProcAttr{
			Env: []string{"PATH=" + os.Getenv("PATH")}, Files: []*os.File{r, null, null},
			Sys: &syscall.SysProcAttr{Setsid: true},
		})
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return &guard{pipe: w, proc: p}, nil
}

func (g *guard) note(pgid int, alive bool) {
	how := "-"
	if alive {
		how = "+"
	}
	_, _ = fmt.Fprintf(g.pipe, "%s %d\n", how, pgid) // fails if the guard was killed
}

func (g *guard) close() {
	_ = g.pipe.Close() // the script ends
	_, _ = g.proc.Wait()
}
