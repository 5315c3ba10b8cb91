package lifecycle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"nereid/engine/agent"
	"nereid/engine/status"
)

// recorder is an agent that records its actions and may return an error.
type recorder struct {
	name   string
	heard  *[]string
	mu     *sync.Mutex
	refuse bool
	move   bool
}

func (a *recorder) Name() string { return a.name }

func (a *recorder) Act(_ context.Context, what agent.Action, m *agent.Model) error {
	a.mu.Lock()
	*a.heard = append(*a.heard, a.name+" "+what.String()+" "+m.Parameters["key"])
	a.mu.Unlock()
	if what == agent.Load && a.refuse {
		return status.New(status.InvalidArg, "I do not like it")
	}
	if what == agent.Load && a.move { // like Triton's relocation agent
		scratch, err := m.Scratch()
		if err != nil {
			return err
		}
		if err := os.CopyFS(filepath.Join(scratch, "moved"), os.DirFS(m.Folder)); err != nil {
			return err
		}
		m.Folder = filepath.Join(scratch, "moved")
		return os.WriteFile(filepath.Join(m.Folder, "1/file"), []byte("decrypted"), 0o644)
	}
	return nil
}

func agentConfig(names ...string) string {
	var b strings.Builder
	b.WriteString("model_repository_agents { ")
	for _, n := range names {
		b.WriteString(`agents [ { name: "` + n + `" parameters { key: "key" value: "of ` + n + `" } } ] `)
	}
	return policy("all {}") + b.String() + "}"
}

func TestRepositoryAgents_A079_I024(t *testing.T) {
	var mu sync.Mutex
	var heard []string
	first, second := &recorder{name: "first", heard: &heard, mu: &mu}, &recorder{name: "second", heard: &heard, mu: &mu}
	r := newRig(t, func(o *Options) { o.Agents = []agent.Agent{second, first, agent.Checksum()} })
	expect := func(what string, want ...string) {
		t.Helper()
		r.until(what, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(heard) >= len(want)
		})
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(heard, want) {
			t.Errorf("%s: the agents heard %q, want %q", what, heard, want)
		}
		heard = nil
	}
	r.write("m/config.pbtxt", agentConfig("first", "second"))
	r.write("m/1/file", "")
	r.load("m")
	loaded := []string{"first LOAD of first", "second LOAD of second", "second LOAD_COMPLETE of second",
		"first LOAD_COMPLETE of first"}
	expect("load", loaded...)
	r.Unload("m")
	gone := []string{"first UNLOAD of first", "second UNLOAD of second", "second UNLOAD_COMPLETE of second",
		"first UNLOAD_COMPLETE of first"}
	expect("unload", gone...)

	r.load("m")
	expect("load again", loaded...)
	r.write("m/1/file", "new")
	r.load("m")
	r.until("the old one is closed", func() bool { open, _, _ := r.b.count(); return open == 1 })
	mu.Lock()
	if len(heard) < 4 || !slices.Equal(heard[:2], loaded[:2]) {
		t.Errorf("at a reload the agents heard %q", heard)
	}
	mu.Unlock()
	r.until("the agents heard of all", func() bool { mu.Lock(); defer mu.Unlock(); return len(heard) == 8 })
	mu.Lock()
	heard = nil
	mu.Unlock()

	r.write("m/1/broken", "")
	if err := r.Load(t.Context(), "m", nil); err == nil {
		t.Error("a broken version loads")
	}
	expect("a load that fails", loaded[0], loaded[1], "second LOAD_FAIL of second", "first LOAD_FAIL of first")
	r.remove("m/1/broken")
	second.refuse = true
	if err := r.Load(t.Context(), "m", nil); err == nil ||
		!strings.Contains(err.Error(), "repository agent 'second' refuses model 'm': I do not like it") {
		t.Errorf("load that an agent refuses = %v", err)
	}
	expect("a refusal", loaded[0], loaded[1], "first LOAD_FAIL of first")
	r.check("what served goes on", "m", 1)

	r.write("m/config.pbtxt", agentConfig("nosuch"))
	if err := r.Load(t.Context(), "m", nil); err == nil ||
		!strings.Contains(err.Error(), "repository agent 'nosuch' of model 'm' is not there; there are: second, "+
			"first, checksum") {
		t.Errorf("load with an agent that is not there = %v", err)
	}
}

// An agent replaces the files of the repository; the agents that the repository's configuration names stay in effect.
func TestAgentReplacesFiles_A080_A083(t *testing.T) {
	var mu sync.Mutex
	var heard []string
	r := newRig(t, func(o *Options) {
		o.Agents = []agent.Agent{&recorder{name: "relocation", heard: &heard, mu: &mu, move: true}, agent.Checksum()}
	})
	r.write("m/config.pbtxt", strings.TrimSuffix(agentConfig("relocation"), "}")+
		`agents [ { name: "checksum" parameters { key: "SHA256:1/file" value: "00" } } ] }`)
	r.write("m/1/file", "encrypted")
	err := r.Load(t.Context(), "m", nil)
	if err == nil || !strings.Contains(err.Error(), "Mismatched SHA256 hash for file 1/file") {
		t.Fatalf("load = %v, want the checksum agent to see the replaced file and refuse", err)
	}
	sum := sha256.Sum256([]byte("decrypted"))
	r.write("m/config.pbtxt", strings.TrimSuffix(agentConfig("relocation"), "}")+
		`agents [ { name: "checksum" parameters { key: "SHA256:1/file" value: "`+hex.EncodeToString(sum[:])+`" } } ] }`)
	r.load("m")
	r.check("from the replaced files", "m", 1)
	if err := r.ask("m"); err != nil {
		t.Error(err)
	}
	cfg, err := r.Config("m", -1)
	if err != nil || len(cfg.GetModelRepositoryAgents().GetAgents()) != 2 {
		t.Errorf("the configuration names the agents %v, %v", cfg.GetModelRepositoryAgents(), err)
	}
	if b, err := os.ReadFile(filepath.Join(r.root, "m/1/file")); err != nil || string(b) != "encrypted" {
		t.Errorf("the repository's file is %q, %v", b, err)
	}
	r.Unload("m")
	r.until("the scratch folder is gone", func() bool {
		left, err := os.ReadDir(r.o.OverrideFolder)
		return err == nil && len(left) == 0
	})
}
