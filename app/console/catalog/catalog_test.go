package catalog

import (
	"path/filepath"
	"testing"

	"nereid/app/console/api"
	"nereid/app/console/rest"
)

func TestModelsThatCannotBeEdited(t *testing.T) {
	for name, tt := range map[string]struct {
		m    Model
		want api.Code
	}{
		"no folder": {Model{}, api.CodeNotFound},
		"a copy of a remote one": {Model{Folder: t.TempDir(), Copied: true, Repository: "s3://b/m"},
			api.CodeForbidden},
		"a folder that was just removed": {Model{Folder: filepath.Join(t.TempDir(), "x")}, api.CodeForbidden},
	} {
		if err := tt.m.CheckEditable(); err == nil || rest.CodeOf(err) != tt.want {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
	m := Model{Folder: t.TempDir()}
	if err := m.CheckEditable(); err != nil {
		t.Error(err)
	}
}
