// Package tray shows an icon in the tray of the desktop, over D-Bus: an org.kde.StatusNotifierItem with a menu
// (com.canonical.dbusmenu). https://www.freedesktop.org/wiki/Specifications/StatusNotifierItem/
//
// Run uses the goroutines of the connection, which end with it.
package tray

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/png"
	"os"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/introspect"
	"github.com/godbus/dbus/v5/prop"
)

const (
	itemPath    = dbus.ObjectPath("/StatusNotifierItem")
	itemFace    = "org.kde.StatusNotifierItem"
	menuPath    = dbus.ObjectPath("/MenuBar")
	menuFace    = "com.canonical.dbusmenu"
	watcher     = "org.kde.StatusNotifierWatcher"
	watcherPath = dbus.ObjectPath("/StatusNotifierWatcher")
)

// State is what the icon shows.
type State struct {
	Text   string // in one line
	Alarm  bool   // the user should look
	Paused bool
}

// Options of an icon. All fields are needed. The functions are called on goroutines of the connection.
type Options struct {
	Title string
	Icon  []byte // PNG
	State func() State
	Open  func()
	Pause func(on bool)
	Quit  func()

	OpenText, PauseText, ResumeText, QuitText string
}

// Run shows the icon until ctx ends, whenever the desktop has a tray. It updates it when changed sends. The error says
// that there is no session bus, or that its connection has ended.
func Run(ctx context.Context, o Options, changed <-chan struct{}) error {
	conn, err := dbus.SessionBusPrivateNoAutoStartup(dbus.WithContext(ctx))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err = conn.Auth(nil); err == nil {
		err = conn.Hello()
	}
	if err != nil {
		return err
	}
	i, err := export(conn, o)
	if err != nil {
		return err
	}
	// The name of a tray that comes later, or again.
	err = conn.AddMatchSignal(dbus.WithMatchSender("org.freedesktop.DBus"),
		dbus.WithMatchInterface("org.freedesktop.DBus"), dbus.WithMatchMember("NameOwnerChanged"),
		dbus.WithMatchArg(0, watcher))
	if err != nil {
		return err
	}
	signals := make(chan *dbus.Signal, 16)
	conn.Signal(signals)
	i.register()
	for {
		select {
		case <-ctx.Done():
			return nil
		case s, ok := <-signals:
			if !ok && ctx.Err() != nil {
				return nil // it ends with ctx
			}
			if !ok {
				return errors.New("the connection to the session bus has ended")
			}
			if len(s.Body) == 3 && s.Body[0] == watcher && s.Body[2] != "" {
				i.register()
			}
		case <-changed:
			if err := i.update(); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// item is the object of the icon.
type item struct {
	o     Options
	conn  *dbus.Conn
	name  string
	props *prop.Properties
	menu  *menu
}

// pixmap is a picture: ARGB, 32 bits, in network byte order.
type pixmap struct {
	Width, Height int32
	Data          []byte
}

type toolTip struct {
	Icon        string
	Pixmap      []pixmap
	Title, Text string
}

func export(conn *dbus.Conn, o Options) (*item, error) {
	icon, err := pixmapOf(o.Icon)
	if err != nil {
		return nil, err
	}
	s := o.State()
	i := &item{o: o, conn: conn, name: fmt.Sprintf("%s-%d-1", itemFace, os.Getpid())}
	i.menu = &menu{o: o, conn: conn, revision: 1}
	constant := func(v any) *prop.Prop { return &prop.Prop{Value: v, Emit: prop.EmitFalse} }
	if i.props, err = prop.Export(conn, itemPath, prop.Map{itemFace: {
		"Category": constant("ApplicationStatus"), "Id": constant("nereid"), "Title": constant(o.Title),
		"Status": constant(statusOf(s)), "WindowId": constant(int32(0)), "IconName": constant(""),
		"IconPixmap": constant([]pixmap{icon}), "OverlayIconName": constant(""),
		"OverlayIconPixmap": constant([]pixmap{}), "AttentionIconName": constant(""),
		"AttentionIconPixmap": constant([]pixmap{icon}), "AttentionMovieName": constant(""),
		"ToolTip": constant(toolTip{"", []pixmap{}, o.Title, s.Text}), "ItemIsMenu": constant(false),
		"Menu": constant(menuPath),
	}}); err != nil {
		return nil, err
	}
	if _, err := prop.Export(conn, menuPath, prop.Map{menuFace: {
		"Version": constant(uint32(3)), "TextDirection": constant("ltr"), "Status": constant("normal"),
		"IconThemePath": constant([]string{}),
	}}); err != nil {
		return nil, err
	}
	node := func(path dbus.ObjectPath, face string, methods []introspect.Method) error {
		about := introspect.NewIntrospectable(&introspect.Node{Name: string(path), Interfaces: []introspect.Interface{
			introspect.IntrospectData, prop.IntrospectData, {Name: face, Methods: methods}}})
		return conn.Export(about, path, "org.freedesktop.DBus.Introspectable")
	}
	err = errors.Join(conn.Export(i, itemPath, itemFace), conn.Export(i.menu, menuPath, menuFace),
		node(itemPath, itemFace, introspect.Methods(i)), node(menuPath, menuFace, introspect.Methods(i.menu)))
	if err != nil {
		return nil, err
	}
	reply, err := conn.RequestName(i.name, dbus.NameFlagDoNotQueue)
	if err == nil && reply != dbus.RequestNameReplyPrimaryOwner {
		err = fmt.Errorf("the name %s is taken", i.name)
	}
	return i, err
}

// pixmapOf decodes a PNG.
func pixmapOf(text []byte) (pixmap, error) {
	img, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		return pixmap{}, err
	}
	const side = 64 // trays are small; the picture is sent with each question
	b := img.Bounds()
	p := pixmap{Width: side, Height: side}
	for y := range side {
		for x := range side {
			r, g, bl, a := img.At(b.Min.X+x*b.Dx()/side, b.Min.Y+y*b.Dy()/side).RGBA()
			p.Data = append(p.Data, byte(a>>8), byte(r>>8), byte(g>>8), byte(bl>>8))
		}
	}
	return p, nil
}

func statusOf(s State) string {
	if s.Alarm {
		return "NeedsAttention"
	}
	return "Active"
}

// register shows the icon in the tray. Without one, nothing happens until there is one.
func (i *item) register() {
	i.conn.Object(watcher, watcherPath).Go(watcher+".RegisterStatusNotifierItem", dbus.FlagNoReplyExpected, nil, i.name)
}

// update tells the tray of a new state.
func (i *item) update() error {
	s := i.o.State()
	i.props.SetMust(itemFace, "Status", statusOf(s))
	i.props.SetMust(itemFace, "ToolTip", toolTip{"", []pixmap{}, i.o.Title, s.Text})
	return errors.Join(i.conn.Emit(itemPath, itemFace+".NewStatus", statusOf(s)),
		i.conn.Emit(itemPath, itemFace+".NewToolTip"), i.menu.changed())
}

// Activate is a click on the icon.
func (i *item) Activate(_, _ int32) *dbus.Error { i.o.Open(); return nil }

// SecondaryActivate is a click with the middle button.
func (i *item) SecondaryActivate(_, _ int32) *dbus.Error { i.o.Open(); return nil }

// ContextMenu is a click for which the tray does not show the menu itself.
func (i *item) ContextMenu(_, _ int32) *dbus.Error { i.o.Open(); return nil }

// Scroll is the wheel over the icon.
func (i *item) Scroll(_ int32, _ string) *dbus.Error { return nil }
