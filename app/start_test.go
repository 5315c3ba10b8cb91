package app

import (
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"nereid/store"
)

func TestSecondStartOnTheSameDataFolder(t *testing.T) {
	dir := t.TempDir()
	first, err := openDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = openDataDir(dir)
	if err == nil || !strings.Contains(err.Error(), "pid "+strconv.Itoa(os.Getpid())) || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("second start = %v, want a refusal that names the holder and the cure", err)
	}
	first.close()
	again, err := openDataDir(dir)
	if err != nil {
		t.Fatalf("after the first is gone: %v", err)
	}
	again.close()
}

func TestBusyPortNamesItsHolderAndAFreeOne(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	busy := l.Addr().(*net.TCPAddr).Port
	c := load(t, "--http-port="+strconv.Itoa(busy), "--grpc-port=0", "--metrics-port=0", "--ui-port=0")
	_, err = listen(c)
	if err == nil {
		t.Fatal("listens on a busy port")
	}
	for _, want := range []string{"HTTP service", l.Addr().String() + "' already in use", "pid " + strconv.Itoa(os.Getpid()), "--http-port="} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

func TestPortZeroTakesFreeOnes(t *testing.T) {
	all, err := listen(load(t, "--http-port=0", "--grpc-port=0", "--metrics-port=0", "--ui-port=0"))
	if err != nil {
		t.Fatal(err)
	}
	defer all.close()
	if len(all) != 4 {
		t.Errorf("%d listeners, want 4", len(all))
	}
}

func TestAHistoryThatCannotBeOpenedDoesNotStopTheServer(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/"+store.FileName, 0o700); err != nil { // a folder where the database should be
		t.Fatal(err)
	}
	s := &server{c: load(t), log: slog.New(slog.DiscardHandler), data: &dataDir{path: dir}}
	if err := s.openStore(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer s.store.Close() // in memory
	if len(s.warnings) != 1 || !strings.Contains(s.warnings[0].Text, "kept in memory") {
		t.Errorf("warnings = %v, want one that says where the history is", s.warnings)
	}
}
