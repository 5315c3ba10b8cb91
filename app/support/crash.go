package support

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"
)

// The files of a data folder with what the program wrote when it crashed: this one, and the last one that did.
const (
	crashName = "crash.txt"
	lastCrash = "crash-last.txt"
)

// maxCrash bounds what is read of a crash: the first goroutines, of which the first is the one that failed.
const maxCrash = 1 << 20

// CatchCrash has Go write a crash of this program to a data folder as well, below a line about the program. It reports
// whether the program that had the folder before crashed.
func CatchCrash(dataDir, version string) (crashed bool, err error) {
	path := filepath.Join(dataDir, crashName)
	if crashed = hasCrash(path); crashed {
		if err := os.Rename(path, filepath.Join(dataDir, lastCrash)); err != nil {
			return true, err
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return crashed, err
	}
	_, err = fmt.Fprintf(f, "nereid %s, started %s\n", version, time.Now().UTC().Format(time.RFC3339))
	return crashed, errors.Join(err, debug.SetCrashOutput(f, debug.CrashOptions{}), f.Close()) // Go duplicates f
}

// hasCrash reports whether a file has more than the line about the program.
func hasCrash(path string) bool {
	b, err := os.ReadFile(path)
	return err == nil && len(b) > bytes.IndexByte(b, '\n')+1
}

// copyCrash writes the last crash that a data folder has, or that there is none.
func copyCrash(w io.Writer, dataDir string) error {
	path := filepath.Join(dataDir, crashName)
	if !hasCrash(path) {
		path = filepath.Join(dataDir, lastCrash)
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		_, err = io.WriteString(w, "This server has not crashed.\n")
		return err
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, io.LimitReader(f, maxCrash))
	return err
}
