package triton

import (
	"os"
	"path/filepath"
	"testing"
)

// Agents are the libraries in folders with their names. The name of the agents' folder is no pattern.
func TestAgentsAreFoundByTheirLibraries(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "agents[1]")
	for _, name := range []string{"mine/libtritonrepoagent_mine.so", "mine/libtritonrepoagent_other.so", "empty/x"} {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := FindAgents(AgentOptions{Directory: folder})
	if err != nil || len(found) != 1 || found[0].Name() != "mine" {
		t.Fatalf("FindAgents = %v, %v; want the agent mine", found, err)
	}
}
