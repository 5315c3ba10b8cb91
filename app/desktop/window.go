//go:build desktop || dev || bindings

package desktop

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wailsapp/wails/v2"
	"github.com/wailsapp/wails/v2/pkg/menu"
	"github.com/wailsapp/wails/v2/pkg/menu/keys"
	"github.com/wailsapp/wails/v2/pkg/options"
	"github.com/wailsapp/wails/v2/pkg/options/assetserver"
	"github.com/wailsapp/wails/v2/pkg/options/linux"
	"github.com/wailsapp/wails/v2/pkg/runtime"

	"nereid/engine"
	"nereid/engine/status"
)

// icon of the window, drawn by build/scripts/icon.py.
//
//go:embed icon.png
var icon []byte

// title is the title of the window. Window managers and tests find it by this.
const title = "Nereid"

// pageLimit is how long the page may take until its first call. After that the log says that it seems to be blank.
const pageLimit = 30 * time.Second

// Window is the program's one window. Its methods are safe for concurrent use, also before Run.
type Window struct {
	words words
	alive chan struct{} // closed by the page's first call
	pick  sync.Mutex    // held while a dialog is open
	drops drops
	keep  atomic.Bool // closing the window only hides it
	quits atomic.Bool // the user wants to exit, even if keep is set
	stops atomic.Bool // the program exits, whatever the user wants
	edits atomic.Bool // the page has unsaved edits
	asks  sync.Mutex  // held while the question about them is open

	notes sync.Once
	noted error         // why there are no notifications; written by notes
	open  chan struct{} // closed when the window is there, before its page
	ready chan struct{} // closed when the page hears events

	settings atomic.Pointer[Settings] // nil: the size is not remembered

	engine  atomic.Pointer[engine.Engine] // for the icon in the tray; nil: there is none
	changed chan struct{}                 // capacity 1: the state of a model has changed

	mu  sync.Mutex
	ctx context.Context // of Wails, for its functions; nil while there is no window; guarded by mu
}

// Options are what a Window shows.
type Options struct {
	Page fs.FS        // the built page, with index.html at its root
	Base string       // the URL of the console; see BaseURL
	Log  *slog.Logger // nil: none
}

// New makes the window, which Run opens.
func New() *Window {
	return &Window{words: wordsFor(os.Getenv), alive: make(chan struct{}), changed: make(chan struct{}, 1),
		open: make(chan struct{}), ready: make(chan struct{})}
}

// HasDisplay reports whether there is a screen to open a window on.
func HasDisplay() bool { return os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != "" }

// Watch passes all requests to next, the console, and notices the first call of the page in the window. It must be
// called once.
func (w *Window) Watch(next http.Handler) http.Handler {
	return firstCall(next, func() { close(w.alive) })
}

// Run opens the window and returns when it was closed or ctx is done. It must be called on the main goroutine, once in
// the life of a process. While a dialog is open Run does not return when ctx ends, because the dialog runs
// GTK's main loop.
func (w *Window) Run(ctx context.Context, o Options) (err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	handler, err := pageHandler(o.Page, o.Base, &w.drops)
	if err != nil {
		return err
	}
	defer func() { // Wails panics if GTK does not start
		if p := recover(); p != nil {
			err = fmt.Errorf("the window cannot be opened: %v; check DISPLAY, or use nereid serve and a browser", p)
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	started, ended := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	defer close(ended)
	wg.Go(func() { w.quitAfter(ctx, started, ended) })
	wg.Go(func() { w.awaitPage(ctx, o) })
	wg.Go(func() { w.showIcon(ctx, o.Log) })
	ready := sync.OnceFunc(func() { close(w.ready) }) // after a reload the page says it again
	size, state := w.size(ctx)
	return wails.Run(&options.App{
		Title: title, Width: size.Width, Height: size.Height, MinWidth: leastWidth, MinHeight: leastHeight,
		WindowStartState: state,
		AssetServer:      &assetserver.Options{Handler: handler},
		Menu:             w.menu(o),
		Logger:           wailsLog{o.Log},
		OnStartup: func(own context.Context) {
			runtime.OnFileDrop(own, w.dropped)
			runtime.EventsOn(own, "nereid-ready", func(...any) { ready() })
			runtime.EventsOn(own, "nereid-save", func(data ...any) { w.tellSaved(w.save(ctx, o.Base, data)) })
			runtime.EventsOn(own, "nereid-unsaved", func(data ...any) {
				edits := len(data) > 0 && data[0] == true
				w.edits.Store(edits)
				o.Log.Debug("the page reports unsaved edits", "edits", edits)
			})
			w.mu.Lock()
			w.ctx = own
			w.mu.Unlock()
			close(started)
			close(w.open)
		},
		OnShutdown: func(context.Context) {
			w.mu.Lock()
			w.ctx = nil
			w.mu.Unlock()
			cancel()
		},
		OnBeforeClose: w.closing,
		// DisableWebViewDrop must stay false: on Linux it disables file drops too.
		DragAndDrop: &options.DragAndDrop{EnableFileDrop: true},
		// Without Linux options Wails turns the GPU off.
		Linux: &linux.Options{ProgramName: "nereid", Icon: icon, WebviewGpuPolicy: linux.WebviewGpuPolicyOnDemand},
	})
}

// quitAfter closes the window when ctx is done. GTK ignores a quit before its loop runs, so quitAfter repeats it until
// the window has closed.
func (w *Window) quitAfter(ctx context.Context, started, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	select {
	case <-ended:
		return
	case <-started:
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		own := w.wails()
		if own == nil {
			return
		}
		w.stops.Store(true)
		runtime.Quit(own)
		select {
		case <-ended:
			return
		case <-tick.C:
		}
	}
}

// awaitPage logs that the page works, or that it seems not to. A page that fails early is a blank window without a
// message.
func (w *Window) awaitPage(ctx context.Context, o Options) {
	limit := time.NewTimer(pageLimit)
	defer limit.Stop()
	select {
	case <-ctx.Done():
	case <-w.alive:
		o.Log.Info("The window shows the page")
	case <-limit.C:
		o.Log.Warn("the page in the window has not called the server in " + pageLimit.String() +
			"; if the window is blank, open " + o.Base + "/ in a browser")
	}
}

// wails returns the context for Wails' functions, nil while there is no window.
func (w *Window) wails() context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ctx
}

// Keep sets whether closing the window only hides it. Quitting from the menu always ends the program.
func (w *Window) Keep(on bool) { w.keep.Store(on) }

// Configure sets where the size of the window is remembered. It is called before Run.
func (w *Window) Configure(s *Settings) { w.settings.Store(s) }

// size returns how the window opens.
func (w *Window) size(ctx context.Context) (Size, options.WindowStartState) {
	s := w.settings.Load()
	if s == nil {
		return Size{Width: firstWidth, Height: firstHeight}, options.Normal
	}
	size := s.Size(ctx)
	if size.Maximised {
		return size, options.Maximised
	}
	return size, options.Normal
}

// keepSize remembers the size of the window for the next start. While it is maximised, the size before that stays.
func (w *Window) keepSize(own context.Context) {
	s := w.settings.Load()
	if s == nil {
		return
	}
	size := s.Size(own)
	if size.Maximised = runtime.WindowIsMaximised(own); !size.Maximised {
		size.Width, size.Height = runtime.WindowGetSize(own)
	}
	if err := s.SetSize(own, size); err != nil {
		runtime.LogWarning(own, "the size of the window is not remembered: "+err.Error())
	}
}

// closing is called before the window closes. If it returns true the window stays.
func (w *Window) closing(own context.Context) bool {
	if w.stops.Load() {
		return false // the server has ended, and with it the database
	}
	w.keepSize(own)
	if w.keep.Load() && !w.quits.Load() {
		runtime.Hide(own) // the page stays as it is
		return true
	}
	if w.edits.Load() && !w.mayDrop(own) {
		w.quits.Store(false)
		return true
	}
	return false
}

// mayDrop asks the user whether unsaved edits may be dropped.
func (w *Window) mayDrop(own context.Context) bool {
	if !w.asks.TryLock() {
		return false // the question is open already
	}
	defer w.asks.Unlock()
	answer, err := runtime.MessageDialog(own, runtime.MessageDialogOptions{Type: runtime.QuestionDialog,
		Title: w.words.unsavedTitle, Message: w.words.unsaved, DefaultButton: "No"})
	return err != nil || answer == "Yes"
}

// Notify shows a notification of the system with the text of an event, in the user's language, if the system has them.
// It does not wait. Before the window opens the notification waits for it.
func (w *Window) Notify(title, text string) {
	go func() { // ends when the system's service has answered, or with the program if no window opens
		<-w.open
		own := w.wails()
		if own == nil {
			return
		}
		w.notes.Do(func() { w.noted = runtime.InitializeNotifications(own) })
		if w.noted != nil {
			return // the page shows it in any case
		}
		err := runtime.SendNotification(own, runtime.NotificationOptions{ID: title, Title: title,
			Body: w.words.notification(text)})
		if err != nil {
			runtime.LogWarning(own, "a notification was not shown: "+err.Error())
		}
	}()
}

// Show brings the window to the front. Before the window opens it does nothing.
func (w *Window) Show() {
	if own := w.wails(); own != nil {
		runtime.WindowUnminimise(own)
		runtime.Show(own)
	}
}

// Open opens the import of files, absolute paths, in the page. It does not wait for the page.
func (w *Window) Open(files []string) {
	if len(files) == 0 {
		return
	}
	go func() { // ends with the program if no page comes
		<-w.ready
		w.raise("nereid-files", pageFiles{X: -1, Y: -1, Paths: files})
	}()
}

var (
	errNoWindow   = errors.New("the window is not open") // for a dialog before it opened or after it closed
	errDialogOpen = errors.New("a file dialog is open already; finish that one first")
)

// Pick opens the system's dialog for a file or a folder and returns the path, "" if the user cancels. It returns early
// when ctx is done. The dialog then stays until the user closes it, and until then another one is refused.
func (w *Window) Pick(ctx context.Context, folder bool) (string, error) {
	own := w.wails()
	if own == nil {
		return "", status.Errorf(status.Unavailable, "no dialog can open: %v", errNoWindow)
	}
	if !w.pick.TryLock() {
		return "", status.Errorf(status.AlreadyExists, "%v", errDialogOpen)
	}
	type picked struct {
		path string
		err  error
	}
	result := make(chan picked, 1)
	go func() { // outlives Pick only if ctx ends; then it ends with the dialog
		defer w.pick.Unlock()
		var p picked
		if folder {
			p.path, p.err = runtime.OpenDirectoryDialog(own,
				runtime.OpenDialogOptions{Title: dialogTitle(w.words.openFolder)})
		} else {
			p.path, p.err = runtime.OpenFileDialog(own, runtime.OpenDialogOptions{Title: dialogTitle(w.words.openFile),
				Filters: []runtime.FileFilter{
					{DisplayName: w.words.models, Pattern: "*.onnx;*.zip"},
					{DisplayName: w.words.allFiles, Pattern: "*"},
				}})
		}
		result <- p
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case p := <-result:
		return p.path, p.err
	}
}

// dialogTitle is the title of the dialog that a menu entry opens: the entry without its dots.
func dialogTitle(entry string) string { return strings.TrimSuffix(entry, "…") }

// save asks the user for a file and saves there what the page asks for. The path is empty if the user cancels.
func (w *Window) save(ctx context.Context, base string, data []any) (path string, err error) {
	s, err := parseSave(data)
	if err != nil {
		return "", err
	}
	own := w.wails()
	if own == nil {
		return "", errNoWindow
	}
	if !w.pick.TryLock() {
		return "", errDialogOpen
	}
	path, err = runtime.SaveFileDialog(own, runtime.SaveDialogOptions{Title: w.words.save, DefaultFilename: s.Name})
	w.pick.Unlock()
	if err != nil || path == "" {
		return "", err
	}
	return path, s.write(ctx, base, path)
}

// pageSaved is the detail of the event nereid-saved.
type pageSaved struct {
	Path  string `json:"path"`  // where it was saved
	Error string `json:"error"` // why it was not; empty if it was
}

func (w *Window) tellSaved(path string, err error) {
	switch {
	case err != nil:
		w.raise("nereid-saved", pageSaved{Error: err.Error()})
	case path != "":
		w.raise("nereid-saved", pageSaved{Path: path})
	}
}

// dropped passes dropped files to the page, which knows the element under the pointer. x and y are in CSS pixels.
func (w *Window) dropped(x, y int, paths []string) {
	if len(paths) == 0 {
		return
	}
	w.raise("nereid-files", pageFiles{X: x, Y: y, Paths: paths, From: w.drops.offer(paths)})
}

// pageFiles is the detail of the event nereid-files, which the page listens for.
type pageFiles struct {
	X     int      `json:"x"` // where they were dropped; -1: they come from the menu or a command line
	Y     int      `json:"y"`
	Paths []string `json:"paths"` // absolute
	From  string   `json:"from"`  // where the page can read dropped ones, as of drops.offer; else empty
}

// raise raises an event in the page, whose detail is v as JSON.
func (w *Window) raise(event string, v any) {
	own := w.wails()
	detail, err := json.Marshal(v)
	if own == nil || err != nil { // strings and numbers can always be encoded
		return
	}
	runtime.WindowExecJS(own, "window.dispatchEvent(new CustomEvent(\""+event+"\",{detail:"+string(detail)+"}))")
}

func (w *Window) menu(o Options) *menu.Menu {
	open := func(folder bool) menu.Callback {
		return func(*menu.CallbackData) {
			path, err := w.Pick(context.Background(), folder)
			switch {
			case err != nil:
				o.Log.Warn("opening a model from the menu failed", "err", err)
			case path != "":
				w.raise("nereid-files", pageFiles{X: -1, Y: -1, Paths: []string{path}})
			}
		}
	}
	do := func(f func(own context.Context)) menu.Callback {
		return func(*menu.CallbackData) {
			if own := w.wails(); own != nil {
				f(own)
			}
		}
	}
	m := menu.NewMenu()
	file := m.AddSubmenu(w.words.file)
	file.AddText(w.words.openFile, keys.CmdOrCtrl("o"), open(false))
	file.AddText(w.words.openFolder, keys.Combo("o", keys.CmdOrCtrlKey, keys.ShiftKey), open(true))
	file.AddSeparator()
	file.AddText(w.words.browser, keys.CmdOrCtrl("b"), do(func(own context.Context) {
		runtime.BrowserOpenURL(own,
			o.Base+"/")
	}))
	file.AddText(w.words.reload, keys.CmdOrCtrl("r"), do(runtime.WindowReload))
	file.AddSeparator()
	file.AddText(w.words.quit, keys.CmdOrCtrl("q"), func(*menu.CallbackData) { w.quit() })
	return m
}

// wailsLog writes Wails' messages into the program's log.
type wailsLog struct{ log *slog.Logger }

func (l wailsLog) Print(text string)   { l.log.Debug("window: " + text) }
func (l wailsLog) Trace(text string)   { l.log.Debug("window: " + text) }
func (l wailsLog) Debug(text string)   { l.log.Debug("window: " + text) }
func (l wailsLog) Info(text string)    { l.log.Debug("window: " + text) }
func (l wailsLog) Warning(text string) { l.log.Warn("window: " + text) }
func (l wailsLog) Error(text string)   { l.log.Error("window: " + text) }
func (l wailsLog) Fatal(text string)   { l.log.Error("window: " + text) }
