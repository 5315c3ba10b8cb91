// Package tools has checks of the whole repository.
package tools

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

func TestRelativeLinksInDocumentsExist(t *testing.T) {
	documents := []string{}
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/*/*.md", "../../*/README.md",
		"../../*/*/README.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, found...)
	}
	link := regexp.MustCompile(`\]\(([^)#: ]+)(#[^)]*)?\)`)
	followed := 0
	for _, document := range documents {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			followed++
			if _, err := os.Stat(filepath.Join(filepath.Dir(document), m[1])); err != nil {
				t.Errorf("%s links to %s, which does not exist", document, m[1])
			}
		}
	}
	if followed < 10 {
		t.Errorf("%d links in %d documents: the pattern no longer finds links", followed, len(documents))
	}
}
