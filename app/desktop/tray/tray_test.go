package tray_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"nereid/app/desktop/tray"
)

// bus starts a private bus, which is the session's.
func bus(t *testing.T) *dbus.Conn {
	t.Helper()
	if _, err := exec.LookPath("dbus-daemon"); err != nil {
		t.Skip("there is no dbus-daemon")
	}
	cmd := exec.Command("dbus-daemon", "--session", "--nofork", "--print-address=1", "--nopidfile")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", strings.TrimSpace(address))
	return connect(t)
}

func connect(t *testing.T) *dbus.Conn {
	t.Helper()
	conn, err := dbus.Connect(os.Getenv("DBUS_SESSION_BUS_ADDRESS"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// watcher is the tray of a desktop.
type watcher struct{ items chan string }

// RegisterStatusNotifierItem is called by an icon.
func (w *watcher) RegisterStatusNotifierItem(name string) *dbus.Error { w.items <- name; return nil }

// show makes a tray.
func show(t *testing.T, conn *dbus.Conn) *watcher {
	t.Helper()
	w := &watcher{make(chan string, 10)}
	if err := conn.Export(w, "/StatusNotifierWatcher", "org.kde.StatusNotifierWatcher"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.RequestName("org.kde.StatusNotifierWatcher", 0); err != nil {
		t.Fatal(err)
	}
	return w
}

func next[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(time.Minute):
		t.Fatal("nothing happens")
	}
	return v
}

// icon is an icon that runs, as a tray sees it.
type icon struct {
	t       *testing.T
	conn    *dbus.Conn
	name    string
	state   atomic.Pointer[tray.State]
	did     chan string // by the menu
	changed chan struct{}
}

// start shows an icon until the test ends.
func start(t *testing.T, conn *dbus.Conn) *icon {
	t.Helper()
	png, err := os.ReadFile("../icon.png")
	if err != nil {
		t.Fatal(err)
	}
	i := &icon{t: t, conn: conn, did: make(chan string, 10), changed: make(chan struct{})}
	i.state.Store(&tray.State{Text: "2 models are ready"})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- tray.Run(ctx, tray.Options{Title: "Nereid", Icon: png,
			State: func() tray.State { return *i.state.Load() },
			Open:  func() { i.did <- "open" }, Quit: func() { i.did <- "quit" },
			Pause: func(on bool) {
				i.state.Store(&tray.State{Text: "paused", Paused: on})
				i.did <- map[bool]string{true: "pause", false: "resume"}[on]
			},
			OpenText: "Open", PauseText: "Pause", ResumeText: "Resume", QuitText: "Quit"}, i.changed)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return i
}

func (i *icon) property(of string) any {
	i.t.Helper()
	v, err := i.conn.Object(i.name, "/StatusNotifierItem").GetProperty("org.kde.StatusNotifierItem." + of)
	if err != nil {
		i.t.Fatal(err)
	}
	return v.Value()
}

// menu returns the labels of the menu.
func (i *icon) menu() string {
	i.t.Helper()
	var revision uint32
	var root struct {
		ID         int32
		Properties map[string]dbus.Variant
		Children   []dbus.Variant
	}
	call := i.conn.Object(i.name, "/MenuBar").Call("com.canonical.dbusmenu.GetLayout", 0, int32(0), int32(-1),
		[]string{})
	if err := call.Store(&revision, &root); err != nil {
		i.t.Fatal(err)
	}
	var all []string
	for _, c := range root.Children {
		label, _ := c.Value().([]any)[1].(map[string]dbus.Variant)["label"].Value().(string)
		all = append(all, label)
	}
	return strings.Join(all, "|")
}

// The icon is in a tray that comes later, and again in the next one.
func TestG026TheIconIsInEachTray(t *testing.T) {
	conn := bus(t)
	start(t, conn)
	first := connect(t)
	name := next(t, show(t, first).items)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if again := next(t, show(t, conn).items); again != name {
		t.Errorf("the icon is %s, and was %s", again, name)
	}
}

func TestG026TheIconShowsTheState(t *testing.T) {
	conn := bus(t)
	w := show(t, conn)
	i := start(t, conn)
	i.name = next(t, w.items)
	if got := i.property("Status"); got != "Active" {
		t.Errorf("the status is %v", got)
	}
	if got := i.property("IconPixmap").([][]any); len(got) != 1 || len(got[0][2].([]byte)) != 64*64*4 {
		t.Error("the icon has no picture of 64 x 64 pixels")
	}
	if err := conn.AddMatchSignal(dbus.WithMatchMember("NewStatus")); err != nil {
		t.Fatal(err)
	}
	signals := make(chan *dbus.Signal, 100)
	conn.Signal(signals)
	i.state.Store(&tray.State{Text: "1 model has failed", Alarm: true})
	i.changed <- struct{}{}
	s := next(t, signals)
	for !strings.HasSuffix(s.Name, "NewStatus") {
		s = next(t, signals)
	}
	if s.Body[0] != "NeedsAttention" || i.property("Status") != "NeedsAttention" {
		t.Errorf("the status is %v", s.Body)
	}
}

func TestG026TheMenuOpensPausesAndQuits(t *testing.T) {
	conn := bus(t)
	w := show(t, conn)
	i := start(t, conn)
	i.name = next(t, w.items)
	if got := i.menu(); got != "2 models are ready|Open|Pause||Quit" {
		t.Errorf("the menu is %s", got)
	}
	for _, click := range []struct {
		id         int32
		does, menu string
	}{{2, "open", "Pause"}, {3, "pause", "Resume"}, {3, "resume", "Pause"}, {5, "quit", "Pause"}} {
		call := conn.Object(i.name, "/MenuBar").Call("com.canonical.dbusmenu.Event", 0, click.id, "clicked",
			dbus.MakeVariant(0), uint32(0))
		if call.Err != nil {
			t.Fatal(call.Err)
		}
		if got := next(t, i.did); got != click.does || !strings.Contains(i.menu(), "|"+click.menu+"|") {
			t.Errorf("entry %d does %s, want %s; the menu is %s", click.id, got, click.does, i.menu())
		}
	}
	item := conn.Object(i.name, "/StatusNotifierItem")
	if err := item.Call("org.kde.StatusNotifierItem.Activate", 0, int32(0), int32(0)).Err; err != nil {
		t.Fatal(err)
	}
	if got := next(t, i.did); got != "open" {
		t.Errorf("a click on the icon does %s", got)
	}
}

func TestG026WithoutASessionBusThereIsNoIcon(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "")
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	if err := tray.Run(t.Context(), tray.Options{}, nil); err == nil {
		t.Error("there is no error")
	}
}
