package imports

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"nereid/app/durable"
)

// The journal of an import is a hidden file in its model folder. It has one name until the model is in service, and
// another one until what it replaced is in the trash; then it is removed. It is locked while its server lives.
const (
	journalName = ".nereid-import"
	placedName  = ".nereid-imported"
)

// journal says where the import's model folder belongs, by the names of folders in the repository.
type journal struct {
	Place  string `json:"place"`  // the model's folder
	Hidden string `json:"hidden"` // the folder that is exchanged with it

	file *os.File
}

// writeJournal makes the journal of the import that is in a hidden folder.
func writeJournal(hidden, place string) (*journal, error) {
	j := &journal{Place: filepath.Base(place), Hidden: filepath.Base(hidden)}
	b, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(hidden, journalName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	j.file = f
	_ = durable.Lock(f) // a file system without locks is rarely shared by servers
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

// placed notes, durably, that the model folder stays where it is.
func (j *journal) placed(folder string) error {
	return durable.Rename(filepath.Join(folder, journalName), filepath.Join(folder, placedName))
}

func (j *journal) close() { _ = j.file.Close() } // what it says is on the disk

// errBusy says that another server is at work on an import.
var errBusy = errors.New("the import of another server")

// readJournal reads the journal with this name in a model folder; nil if there is none. It returns what another server
// wrote that is at work together with errBusy. The caller closes the journal.
func readJournal(folder, name string) (*journal, error) {
	f, err := os.Open(filepath.Join(folder, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	j := &journal{file: f}
	b, err := io.ReadAll(io.LimitReader(f, 4096))
	if err == nil {
		err = json.Unmarshal(b, j)
	}
	if err != nil || !isName(j.Place) || !isName(j.Hidden) {
		*j = journal{file: f} // half written: the import was not complete
	}
	if err := durable.Lock(f); err != nil {
		return j, errBusy
	}
	return j, nil
}

// isName reports whether a text can be the name of a folder in a repository.
func isName(s string) bool {
	return s != "" && s != "." && s != ".." && !strings.ContainsAny(s, "/\x00")
}
