package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"nereid/app/durable"
	"nereid/store"
)

// FileName is the file of a data folder that says which tokens there are, mode 0600. It decides: the database only has
// a copy. It exists from the first start on, also without tokens, so that a damaged database does not leave in doubt
// whether there are any.
const FileName = "tokens.json"

// tokenFile is its content.
type tokenFile struct {
	Tokens []store.Token `json:"tokens"` // nil: the file is incomplete
}

// readFile returns the tokens of a data folder. The error is fs.ErrNotExist without the file.
func readFile(dir string) ([]store.Token, error) {
	path := filepath.Join(dir, FileName)
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err // names the path
	}
	tokens, err := decode(content)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", path, err)
	}
	return tokens, nil
}

func decode(content []byte) ([]store.Token, error) {
	var f tokenFile
	if err := json.Unmarshal(content, &f); err != nil {
		return nil, err
	}
	if f.Tokens == nil {
		return nil, errors.New("it has no list of tokens")
	}
	return f.Tokens, nil
}

// writeFile replaces the tokens of a data folder. If the error is nil, they are on disk.
func writeFile(dir string, tokens []store.Token) error {
	content, err := json.Marshal(tokenFile{append([]store.Token{}, tokens...)})
	if err != nil {
		return err
	}
	if err := durable.Replace(filepath.Join(dir, FileName), append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("the tokens are not stored: %w", err)
	}
	return nil
}

// StoreOptions are those with which the database of a data folder must be opened before New. Without the file only the
// database knows the tokens, so a damaged one must stay in place.
func StoreOptions(dir string) store.Options {
	_, err := os.Lstat(filepath.Join(dir, FileName))
	return store.Options{KeepDamaged: err != nil}
}

// Forget removes the file, because the database now has other tokens. The next start makes it again.
func Forget(dir string) error {
	if err := os.RemoveAll(filepath.Join(dir, FileName)); err != nil {
		return err
	}
	return durable.SyncFolder(dir)
}

// HasNone reports whether a data folder is known to have no tokens.
func HasNone(dir string) bool {
	tokens, err := readFile(dir)
	if errors.Is(err, os.ErrNotExist) {
		return !hasDatabase(dir)
	}
	return err == nil && len(tokens) == 0
}

// hasDatabase reports whether a data folder has, or may have, a database with something in it.
func hasDatabase(dir string) bool {
	for _, name := range []string{store.FileName, store.FileName + "-wal"} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if !errors.Is(err, os.ErrNotExist) && (err != nil || !info.Mode().IsRegular() || info.Size() > 0) {
			return true
		}
	}
	return false
}
