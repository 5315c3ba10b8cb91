//go:build desktop || dev || bindings

package desktop

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/wailsapp/wails/v2/pkg/runtime"

	"nereid/app/desktop/tray"
	"nereid/engine"
	"nereid/engine/lifecycle"
)

// Serves sets whose state the icon in the tray shows. It is called before Run.
func (w *Window) Serves(e *engine.Engine) { w.engine.Store(e) }

// Changed updates the icon in the tray. It does not wait.
func (w *Window) Changed() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// showIcon shows the icon in the tray until ctx ends. A desktop without a session bus has none.
func (w *Window) showIcon(ctx context.Context, log *slog.Logger) {
	e := w.engine.Load()
	if e == nil {
		return
	}
	err := tray.Run(ctx, tray.Options{
		Title: title, Icon: icon, State: func() tray.State { return w.state(e) }, Open: w.Show, Pause: e.Pause,
		Quit: w.quit, OpenText: w.words.open, PauseText: w.words.pause, ResumeText: w.words.resume,
		QuitText: w.words.quit,
	}, w.changed)
	if err != nil && ctx.Err() == nil {
		log.Info("there is no icon in the tray", "err", err)
	}
}

// quit ends the program, as the entry of the window's menu does.
func (w *Window) quit() {
	if own := w.wails(); own != nil {
		w.quits.Store(true)
		runtime.Quit(own)
	}
}

func (w *Window) state(e *engine.Engine) tray.State {
	if e.Paused() {
		return tray.State{Text: w.words.paused, Paused: true}
	}
	ready, failed := 0, 0
	for _, m := range e.Models() {
		served := false
		for _, v := range m.Versions {
			served = served || v.State == lifecycle.Ready
		}
		switch {
		case served:
			ready++
		case m.Err != nil:
			failed++
		}
	}
	if failed > 0 {
		return tray.State{Text: fmt.Sprintf(w.words.failed, ready, failed), Alarm: true}
	}
	return tray.State{Text: fmt.Sprintf(w.words.ready, ready)}
}
