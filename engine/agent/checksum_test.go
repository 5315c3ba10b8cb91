package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestChecksum_A082_I024(t *testing.T) {
	folder := t.TempDir()
	if err := os.MkdirAll(filepath.Join(folder, "1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "1/file"), []byte("abc"), 0o644); err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	for name, text := range map[string]string{"out": "abc", "other": "abcd"} { // as backends read them
		target := filepath.Join(outside, name)
		if err := os.WriteFile(target, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	// of "abc": RFC 1321, FIPS 180-4
	const md5, sha = "900150983cd24fb0d6963f7d28e17f72",
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	for _, tt := range []struct{ name, key, value, want string }{
		{"MD5", "MD5:1/file", md5, ""},
		{"SHA256", "SHA256:1/file", strings.ToUpper(sha), ""},
		{"another MD5", "MD5:1/file", sha, "Mismatched MD5 hash for file 1/file, expect: " + sha + ", got: " + md5},
		{"another SHA256", "SHA256:1/file", md5, "Mismatched SHA256 hash"},
		{"an empty digest", "MD5:1/file", "", "Mismatched MD5"},
		{"no such file", "MD5:2/file", md5, "2/file"},
		{"a folder", "MD5:1", md5, "not a regular file"},
		{"a path that leads out", "MD5:../x", md5, "inside the model's folder"},
		{"a link that leads out", "MD5:out", md5, ""},
		{"a link that leads to another file", "MD5:other", md5, "Mismatched MD5"},
		{"another algorithm", "CRC32:1/file", md5, "neither MD5:<path> nor SHA256:<path>"},
		{"no algorithm", "1/file", md5, "neither MD5:<path> nor SHA256:<path>"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &Model{Name: "m", Folder: folder, Parameters: map[string]string{tt.key: tt.value}}
			err := Checksum().Act(t.Context(), Load, m)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("Act = %v, want %q in it", err, tt.want)
			}
			if err := Checksum().Act(t.Context(), Unload, m); err != nil {
				t.Errorf("Unload = %v", err)
			}
		})
	}
}
