package desktop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"

	"nereid/app/console/api"
	"nereid/store"
)

// Names of settings: whether the server runs on when its window is closed, and the size of the window.
const (
	keepKey = "desktop.keep_running"
	sizeKey = "desktop.size"
)

// Size is how large the window is, in pixels. The width and the height are those without Maximised.
type Size struct {
	Width     int  `json:"width"`
	Height    int  `json:"height"`
	Maximised bool `json:"maximised"`
}

// limits of a window, in pixels: the first size, the least, and the most that is remembered.
const (
	firstWidth, firstHeight = 1280, 840
	leastWidth, leastHeight = 480, 360
	mostPixels              = 16384
)

// Settings is what the user can decide on the page: whether the server outlives its window, and whether the program
// starts with the computer.
type Settings struct {
	store *store.Store
	keep  func(bool) // sets it in the window
	auto  *Autostart
	why   string // auto is nil, for this reason
	now   bool   // the server outlives its window; only Set changes it
}

// NewSettings reads the stored settings. It calls keep with whether the server outlives its window. args are the
// options with which the program starts at login.
func NewSettings(
	ctx context.Context, s *store.Store, keep func(bool), args []string, log *slog.Logger,
) *Settings {
	d := &Settings{store: s, keep: keep}
	text, err := s.Setting(ctx, keepKey)
	switch {
	case err == nil:
		d.now = string(text) == "true"
	case !errors.Is(err, store.ErrNotFound):
		log.Warn("cannot read whether the server runs on without its window; it does not", "err", err)
	}
	keep(d.now)
	if runtime.GOOS != "linux" {
		d.why = "starting with the computer is not there on this system yet; use the system's own settings"
		return d
	}
	exe, err := os.Executable()
	folder, err2 := os.Getwd()
	if err := errors.Join(err, err2); err != nil {
		d.why = err.Error()
		return d
	}
	if d.auto, err = NewAutostart(os.Getenv, folder, append([]string{exe}, args...)...); err != nil {
		d.why = err.Error()
	}
	return d
}

// State implements settings.Desktop.
func (d *Settings) State() api.Desktop {
	out := api.Desktop{KeepRunning: d.now, AutostartWhyNot: d.why}
	if d.auto != nil {
		out.Autostart, out.AutostartPath = d.auto.On(), d.auto.Path
	}
	return out
}

// Set implements settings.Desktop.
func (d *Settings) Set(ctx context.Context, want api.SetDesktop) error {
	if d.auto == nil && want.Autostart {
		return errors.New(d.why)
	}
	if d.auto != nil && want.Autostart != d.auto.On() {
		if err := d.auto.Set(want.Autostart); err != nil {
			return fmt.Errorf("starting with the computer: %w", err)
		}
	}
	text, err := json.Marshal(want.KeepRunning)
	if err != nil {
		return err
	}
	if err := d.store.SetSetting(ctx, keepKey, text); err != nil {
		return err
	}
	d.now = want.KeepRunning
	d.keep(d.now)
	return nil
}

// Size returns the size that the window had when it was closed last, or that of a first start.
func (d *Settings) Size(ctx context.Context) Size {
	var s Size
	text, err := d.store.Setting(ctx, sizeKey)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil || !s.valid() {
		return Size{Width: firstWidth, Height: firstHeight}
	}
	return s
}

// SetSize keeps the size of the window for the next start.
func (d *Settings) SetSize(ctx context.Context, s Size) error {
	if !s.valid() {
		return fmt.Errorf("a window of %d x %d pixels is not remembered", s.Width, s.Height)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return d.store.SetSetting(ctx, sizeKey, text)
}

func (s Size) valid() bool {
	return s.Width >= leastWidth && s.Height >= leastHeight && s.Width <= mostPixels && s.Height <= mostPixels
}
