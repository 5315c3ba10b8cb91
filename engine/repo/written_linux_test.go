package repo

import (
	"os"
	"testing"
)

func TestWritten_B14(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/1/model.onnx", "half")
	write(t, root+"/.hidden/x", "")
	if got := Written(root); got != "" {
		t.Errorf("nothing is open, and Written = %q", got)
	}
	hidden, err := os.OpenFile(root+"/.hidden/x", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer hidden.Close()
	if got := Written(root); got != "" {
		t.Errorf("a file that does not count is open, and Written = %q", got)
	}
	f, err := os.OpenFile(root+"/1/model.onnx", os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := Written(root); got != root+"/1/model.onnx" {
		t.Errorf("a file is open for writing, and Written = %q", got)
	}
	if _, err := f.WriteString(" and half"); err != nil {
		t.Errorf("the writer is disturbed: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := Written(root); got != "" {
		t.Errorf("the file is closed again, and Written = %q", got)
	}
}
