package worker

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

func startGuard() (*guard, error) {
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
		return nil, closing(w, err)
	}
	defer null.Close() // nothing is written
	p, err := os.StartProcess(shell, []string{"nereid-guard", "-c", guardScript}, &os.ProcAttr{
		Env: []string{}, Files: []*os.File{r, null, null}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, closing(w, err)
	}
	return &guard{pipe: w, proc: p}, nil
}

func (g *guard) note(pgid int, alive bool) {
	how := "-"
	if alive {
		how = "+"
	}
	_, _ = fmt.Fprintf(g.pipe, "%s %d\n", how, pgid) // a guard that somebody killed guards no more
}

func (g *guard) close() {
	_ = g.pipe.Close() // tells it to end
	_, _ = g.proc.Wait()
}
