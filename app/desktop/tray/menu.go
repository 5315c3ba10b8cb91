package tray

import (
	"sync"

	"github.com/godbus/dbus/v5"
)

// The entries of the menu.
const (
	rootID int32 = iota
	stateID
	openID
	pauseID
	lineID
	quitID
)

// menu is the menu of the icon. Its exported methods are those of com.canonical.dbusmenu.
type menu struct {
	o    Options
	conn *dbus.Conn

	mu       sync.Mutex
	revision uint32 // guarded by mu
}

// layout is an entry with its children.
type layout struct {
	ID         int32
	Properties map[string]dbus.Variant
	Children   []dbus.Variant
}

// properties returns what an entry looks like.
func (m *menu) properties(id int32) map[string]dbus.Variant {
	s := m.o.State()
	text := map[int32]string{stateID: s.Text, openID: m.o.OpenText, pauseID: m.o.PauseText, quitID: m.o.QuitText}
	if s.Paused {
		text[pauseID] = m.o.ResumeText
	}
	switch id {
	case rootID:
		return map[string]dbus.Variant{"children-display": dbus.MakeVariant("submenu")}
	case lineID:
		return map[string]dbus.Variant{"type": dbus.MakeVariant("separator")}
	case stateID:
		return map[string]dbus.Variant{"label": dbus.MakeVariant(text[id]), "enabled": dbus.MakeVariant(false)}
	default:
		return map[string]dbus.Variant{"label": dbus.MakeVariant(text[id])}
	}
}

// GetLayout returns an entry with its children.
func (m *menu) GetLayout(parent, depth int32, _ []string) (uint32, layout, *dbus.Error) {
	l := layout{ID: parent, Properties: m.properties(parent), Children: []dbus.Variant{}}
	if parent == rootID && depth != 0 {
		for id := stateID; id <= quitID; id++ {
			l.Children = append(l.Children,
				dbus.MakeVariant(layout{ID: id, Properties: m.properties(id), Children: []dbus.Variant{}}))
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.revision, l, nil
}

// entry is an entry without its children.
type entry struct {
	ID         int32
	Properties map[string]dbus.Variant
}

// GetGroupProperties returns what entries look like; all of them if ids is empty.
func (m *menu) GetGroupProperties(ids []int32, _ []string) ([]entry, *dbus.Error) {
	if len(ids) == 0 {
		ids = []int32{rootID, stateID, openID, pauseID, lineID, quitID}
	}
	all := []entry{}
	for _, id := range ids {
		all = append(all, entry{id, m.properties(id)})
	}
	return all, nil
}

// GetProperty returns one property of an entry.
func (m *menu) GetProperty(id int32, name string) (dbus.Variant, *dbus.Error) {
	v, ok := m.properties(id)[name]
	if !ok {
		return v, dbus.NewError("org.freedesktop.DBus.Error.InvalidArgs", []any{"there is no property " + name})
	}
	return v, nil
}

// Event is what the user does with an entry.
func (m *menu) Event(id int32, event string, _ dbus.Variant, _ uint32) *dbus.Error {
	if event != "clicked" {
		return nil
	}
	switch id {
	case openID:
		m.o.Open()
	case pauseID:
		m.o.Pause(!m.o.State().Paused)
	case quitID:
		m.o.Quit()
	}
	return nil
}

// happened is an Event in a group.
type happened struct {
	ID    int32
	Event string
	Data  dbus.Variant
	Time  uint32
}

// EventGroup is several events. It returns the entries that do not exist.
func (m *menu) EventGroup(all []happened) ([]int32, *dbus.Error) {
	for _, e := range all {
		if err := m.Event(e.ID, e.Event, e.Data, e.Time); err != nil {
			return nil, err
		}
	}
	return []int32{}, nil
}

// AboutToShow reports whether an entry has to be read again before it is shown.
func (m *menu) AboutToShow(int32) (bool, *dbus.Error) { return true, nil }

// AboutToShowGroup is AboutToShow for several entries. It also returns those that do not exist.
func (m *menu) AboutToShowGroup(ids []int32) (update, missing []int32, err *dbus.Error) {
	return ids, []int32{}, nil
}

// changed tells the tray to read the menu again.
func (m *menu) changed() error {
	m.mu.Lock()
	m.revision++
	revision := m.revision
	m.mu.Unlock()
	return m.conn.Emit(menuPath, menuFace+".LayoutUpdated", revision, rootID)
}
