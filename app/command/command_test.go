package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestAModelRepositoryThatIsNotThereIsExplained(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"": "such as -r models", file: "is no folder",
		filepath.Join(folder, "gone"): "make it, or name another"} {
		if err := CheckRepository(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("CheckRepository(%q) = %v; want %q", path, err, want)
		}
	}
	if err := CheckRepository(folder); err != nil {
		t.Error(err)
	}
}

func TestAShellReadsQuotedWordsUnchanged(t *testing.T) {
	for _, word := range []string{"", "plain-1.0/x=y", "two words", "it's", "$(touch x)", "a;b", "`b`", "*",
		"line\nend", "~", `"\`, "#", "é"} {
		out, err := exec.Command("sh", "-c", "printf %s "+ShellQuote(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q is read as %q, %v", word, out, err)
		}
	}
	if got := ShellQuote("models/a_b.onnx"); got != "models/a_b.onnx" {
		t.Errorf("a plain word is quoted: %s", got)
	}
}
