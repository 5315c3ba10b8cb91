package logging

import (
	"strings"
	"testing"
)

func TestTablesShowNoControlCharacters(t *testing.T) {
	got := renderTable([][]string{{"Model"}, {"a\x1b[31m\nb \"c\" 模型"}})
	if !strings.Contains(got, `| a\x1b[31m b "c" 模型 |`) {
		t.Errorf("table:\n%s\nwant the escape shown and quotes as they are", got)
	}
}
