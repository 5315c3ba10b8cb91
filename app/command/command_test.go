package command

import (
	"os/exec"
	"testing"
)

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
