package engine_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"nereid/engine"
)

// chain is an ensemble of n sequential steps.
func chain(steps int, change func(step int) (model, in string)) string {
	var b strings.Builder
	fmt.Fprintf(&b, `platform: "ensemble"
max_batch_size: 8
input { name: "T0" data_type: TYPE_INT32 dims: 4 }
output { name: "T%d" data_type: TYPE_INT32 dims: 4 }
ensemble_scheduling {
`, steps)
	for i := range steps {
		model, in := change(i)
		fmt.Fprintf(&b, `step { model_name: %q model_version: -1 input_map { key: %q value: "T%d" }
	output_map { key: "OUTPUT0" value: "T%d" } }
`, model, in, i, i+1)
	}
	b.WriteString("}\n")
	return b.String()
}

func TestEnsemblesWithManySteps_B19(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const steps = 1000
	root := t.TempDir()
	put(t, root, "word", wordConfig)
	put(t, root, "flow", strings.Replace(squareConfig, `"IN"`, `"INPUT0"`, 1))
	put(t, root, "good", chain(steps, func(int) (string, string) { return "word", "INPUT0" }))
	put(t, root, "clash", chain(steps, func(i int) (string, string) {
		if i == steps-1 {
			return "word", "INPUT9"
		}
		return "word", "INPUT0"
	}))
	put(t, root, "missing", chain(steps, func(i int) (string, string) { return fmt.Sprintf("none%d", i), "INPUT0" }))
	e := start(t, engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{root}},
		Mode:         engine.ModeExplicit,
	})
	load := func(name string) error {
		t.Helper()
		begin := time.Now()
		err := e.LoadModel(t.Context(), name, engine.LoadParameters{})
		if took := time.Since(begin); took > time.Minute {
			t.Errorf("%s took %v", name, took)
		}
		return err
	}
	t.Run("B19 1000 steps", func(t *testing.T) {
		if err := load("good"); err != nil {
			t.Fatal(err)
		}
		r := diamond("good", 1, "T0")
		defer r.Release()
		outs, err := all(t, e, r)
		if err != nil || len(outs) != 1 || !slices.Equal(outs[0][fmt.Sprintf("T%d", steps)],
			[]int32{100, 101, 102, 103}) {
			t.Errorf("answer %v, %v", outs, err)
		}
	})
	t.Run("B19 the last of 1000 steps does not fit", func(t *testing.T) {
		if err := load("clash"); err == nil ||
			!strings.Contains(err.Error(),
				"ensemble tensor T999 is mapping to non-existing input INPUT9 in model word") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("B19 1000 steps whose models are missing", func(t *testing.T) {
		if err := load("missing"); err == nil ||
			!strings.Contains(err.Error(), "depends on 'none0' which has no loaded version") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("B19 ensembles in ensembles, two ways at each of 24 levels", func(t *testing.T) {
		for i := range 24 {
			for _, side := range []string{"a", "b"} {
				put(t, root, fmt.Sprintf("%s%d", side, i), chain(2, func(step int) (string, string) {
					return fmt.Sprintf("%s%d", []string{"a", "b"}[step], i+1), "T0"
				}))
			}
		}
		if err := load("a0"); err == nil { // the last level is not there
			t.Error("loaded without its parts")
		}
	})
	t.Run("B4 a link in the model's folder is not followed by a load request's files", func(t *testing.T) {
		outside := t.TempDir()
		if err := os.Symlink(outside, root+"/word/2"); err != nil {
			t.Fatal(err)
		}
		const config = `{"backend":"identity","max_batch_size":8,"input":[{"name":"INPUT0","data_type":"TYPE_INT32",` +
			`"dims":[4]}],"output":[{"name":"OUTPUT0","data_type":"TYPE_INT32","dims":[4]}]}`
		if err := e.LoadModel(t.Context(), "word",
			engine.LoadParameters{ConfigJSON: config, Files: map[string][]byte{"2/evil": []byte("x")}}); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(outside); err != nil || len(left) != 0 {
			t.Errorf("in the folder outside: %v, %v", left, err)
		}
	})
}
