package frontend

import (
	"encoding/json"
	"os"
	"testing"
)

// TestTextsAreThoseOfThePage reads the cases that server.test.ts has too.
func TestTextsAreThoseOfThePage(t *testing.T) {
	b, err := os.ReadFile("src/lib/i18n/server.cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases [][3]string
	if err := json.Unmarshal(b, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if got := Chinese(c[0], c[1]); got != c[2] {
			t.Errorf("Chinese(%q, %q) = %q, want %q", c[0], c[1], got, c[2])
		}
	}
	if len(cases) < 20 {
		t.Errorf("there are only %d cases", len(cases))
	}
}
