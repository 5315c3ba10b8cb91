package process

import (
	"slices"
	"strings"
	"testing"
)

func TestEnvironPassesAFixedList(t *testing.T) {
	for _, tt := range []struct {
		variable string
		more     []string
		passes   bool
	}{
		{"PATH=/bin", nil, true},
		{"LC_CTYPE=C", nil, true},
		{"OMP_NUM_THREADS=2", nil, true},
		{"HF_HOME=/models", nil, true},
		{"NEREID_TOKEN=t", nil, false},
		{"TRITONCACHE_REDIS_PASSWORD=p", nil, false},
		{"AWS_SECRET_ACCESS_KEY=k", nil, false},
		{"HF_TOKEN=t", nil, false},
		{"TF_VAR_database=x", nil, false},
		{"PYTHON_KEYRING_PASSWORD=p", nil, false},
		{"TORCH_hub_token=p", nil, false},
		{"PATHS=x", nil, false},
		{"https_proxy=http://proxy", nil, true},
		{"https_proxy=http://me:secret@proxy", nil, false},
		{"MINE=1", []string{"MINE"}, true},
		{"MINES=1", []string{"MINE"}, false},
		{"MY_TOKEN=1", []string{"MY_*"}, true},
		{"AWS_SECRET_ACCESS_KEY=k", []string{"*"}, true},
	} {
		if got := Environ([]string{tt.variable}, tt.more); slices.Contains(got, tt.variable) != tt.passes {
			t.Errorf("%s with %q: %q, want that it passes: %t", tt.variable, tt.more, got, tt.passes)
		}
	}
	for variable, want := range map[string][]string{
		"PATH=/bin":               {"PATH=/bin", "ORT_DISABLE_TELEMETRY=1"},
		"ORT_DISABLE_TELEMETRY=0": {"ORT_DISABLE_TELEMETRY=0"},
	} {
		if got := Environ([]string{variable}, nil); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", variable, got, want)
		}
	}
	all := []string{"B=1", "PATH=/bin", "A=1"}
	if got := Withheld(all, nil); !slices.Equal(got, []string{"A", "B"}) {
		t.Errorf("Withheld = %q", got)
	}
}

func TestInstallersGetTheirSettings(t *testing.T) {
	for name, passes := range map[string]bool{
		"PIP_INDEX_URL": true, "UV_INDEX_URL": true, "HTTPS_PROXY": true, "CC": true, "UV_PUBLISH_TOKEN": false,
		"NEREID_TOKEN": false,
	} {
		t.Setenv(name, "http://me:secret@host")
		got := slices.ContainsFunc(InstallerEnviron(nil), func(v string) bool { return strings.HasPrefix(v, name+"=") })
		if got != passes {
			t.Errorf("%s passes: %t, want %t", name, got, passes)
		}
	}
}

func TestOnlyFailedStartsEndTheRestarts(t *testing.T) {
	var r Restarts
	for i := range 50 { // crashes in a row
		wait, again := r.Next(true)
		if !again || wait > longestWait {
			t.Fatalf("after crash %d: a restart after %v: %t", i+1, wait, again)
		}
	}
	for i := 1; i < MaxFailedStarts; i++ {
		if _, again := r.Next(false); !again {
			t.Fatalf("no restart after %d failed starts", i)
		}
	}
	if _, again := r.Next(false); again {
		t.Errorf("a restart after %d failed starts", MaxFailedStarts)
	}
}
