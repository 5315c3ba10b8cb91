package lifecycle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"nereid/engine/inferencepb"
	"nereid/engine/status"
)

// over is the configuration of an ensemble whose only step runs a model.
func over(step string) string {
	return fmt.Sprintf(`platform: "ensemble" max_batch_size: 1
		input { name: "INPUT0" data_type: TYPE_FP32 dims: 4 } output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 4 }
		ensemble_scheduling { step { model_name: %q model_version: -1
			input_map { key: "INPUT0" value: "INPUT0" } output_map { key: "OUTPUT0" value: "OUTPUT0" } } }`, step)
}

// overJSON is over for a load request.
func overJSON(step string) *Override {
	return &Override{Config: fmt.Sprintf(`{"platform":"ensemble","max_batch_size":1,
		"input":[{"name":"INPUT0","data_type":"TYPE_FP32","dims":[4]}],
		"output":[{"name":"OUTPUT0","data_type":"TYPE_FP32","dims":[4]}],
		"ensemble_scheduling":{"step":[{"model_name":%q,"model_version":-1,
			"input_map":{"INPUT0":"INPUT0"},"output_map":{"OUTPUT0":"OUTPUT0"}}]}}`, step)}
}

// pile writes the model m and ensembles, each over the model before it, and loads the last.
func (r *rig) pile(ensembles ...string) {
	r.t.Helper()
	r.write("m/config.pbtxt", policy("all {}"))
	r.write("m/1/file", "")
	below := "m"
	for _, e := range ensembles {
		r.write(e+"/config.pbtxt", over(below))
		r.write(e+"/1/file", "")
		below = e
	}
	r.load(below)
	if err := r.ask(below); err != nil {
		r.t.Fatal(err)
	}
}

// refused checks that a load is refused for a circle, within a minute.
func (r *rig) refused(name string, o *Override) {
	r.t.Helper()
	loaded := make(chan error, 1)
	go func() { loaded <- r.Load(r.t.Context(), name, o) }()
	select {
	case err := <-loaded:
		if err == nil || !strings.Contains(err.Error(), "circular dependency between ensembles: "+name+" -> ") ||
			status.CodeOf(err) != status.InvalidArg {
			r.t.Errorf("load of %s, which makes a circle: %v", name, err)
		}
	case <-time.After(time.Minute):
		r.t.Fatalf("the load of %s, which makes a circle, waits for itself", name)
	}
}

// Configurations of load requests can make a circle that the files do not have.
func TestCircleOfOverrides_A069(t *testing.T) {
	r := newRig(t, nil)
	r.pile("e1")
	r.pile("e2")
	if err := r.Load(t.Context(), "e2", overJSON("e1")); err != nil {
		t.Fatal(err)
	}
	r.refused("e1", overJSON("e2"))
	r.write("e1/config.pbtxt", over("e2"))
	r.refused("e1", nil)
	for _, name := range []string{"e1", "e2"} {
		if err := r.ask(name); err != nil {
			t.Errorf("afterwards, %s: %v", name, err)
		}
	}
}

// Two load requests at a time whose configurations make a circle do not wait for each other.
func TestLoadsThatMakeACircleAtOnce_A069(t *testing.T) {
	r := newRig(t, nil)
	r.pile("e1")
	r.pile("e2")
	for range 50 {
		errs := make(chan error, 2)
		go func() { errs <- r.Load(t.Context(), "e1", overJSON("e2")) }()
		go func() { errs <- r.Load(t.Context(), "e2", overJSON("e1")) }()
		refused := 0
		for range 2 {
			select {
			case err := <-errs:
				if err != nil {
					refused++
				}
			case <-time.After(time.Minute):
				t.Fatal("the loads wait for each other")
			}
		}
		if refused == 0 {
			t.Fatal("the circle is in service")
		}
		for _, name := range []string{"e1", "e2"} {
			if err := r.ask(name); err != nil {
				t.Fatalf("afterwards, %s: %v", name, err)
			}
			if err := r.Load(t.Context(), name, overJSON("m")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A version that goes on serving after a failed reload can make a circle that the files do not have.
func TestCircleOfOlderVersions_A069(t *testing.T) {
	r := newRig(t, nil)
	r.pile("e1", "e2")
	r.write("e2/config.pbtxt", over("nosuch"))
	if err := r.Load(t.Context(), "e2", nil); err == nil {
		t.Fatal("a step that does not exist is accepted")
	}
	r.write("e1/config.pbtxt", over("e2"))
	r.refused("e1", nil)
	if err := r.ask("e2"); err != nil {
		t.Errorf("what was loaded before: %v", err)
	}
	r.write("e2/config.pbtxt", over("m"))
	r.load("e1")
	if err := r.ask("e1"); err != nil {
		t.Errorf("e1 over e2 over m: %v", err)
	}
}

// Ensembles do not count for readiness while a model below them is unloaded, however many ensembles are between.
func TestReadyWithoutTheModelBelow_A075_A076(t *testing.T) {
	for _, namespaces := range []bool{false, true} {
		r := newRig(t, func(o *Options) { o.Namespaces = namespaces })
		r.pile("e1", "e2", "e3")
		r.Unload("m")
		r.check("after the unload", "e3")
		if !r.AllReady() {
			t.Errorf("namespaces %v: not ready after an unload of a model below ensembles", namespaces)
		}
		r.load("m")
		r.check("after the load", "e3", 1)
		r.write("m/1/broken", "")
		r.remove("m/1/file")
		r.Unload("m")
		if err := r.Load(t.Context(), "m", nil); err == nil || r.AllReady() {
			t.Errorf("namespaces %v: ready after a failed load of a model below ensembles: %v", namespaces, err)
		}
	}
}

// An ensemble keeps the configuration of its load request when it is loaded again for a step.
func TestOverriddenEnsembleComesBack_A065(t *testing.T) {
	r := newRig(t, nil)
	r.pile("e")
	r.write("other/config.pbtxt", policy("all {}"))
	r.write("other/1/file", "")
	if err := r.Load(t.Context(), "e", overJSON("other")); err != nil {
		t.Fatal(err)
	}
	r.write("e/2/file", "")
	r.Unload("other")
	r.check("after the unload of its step", "e")
	r.load("other")
	step := func() string {
		s, _ := r.Model("e")
		return s.Config.GetEnsembleScheduling().GetStep()[0].GetModelName()
	}
	if err := r.ask("e"); err != nil || step() != "other" {
		t.Errorf("after the load of its step: %v, over %s", err, step())
	}
	r.load("e")
	r.check("after a load without an override, with a newer version", "e", 2)
	if step() != "m" {
		t.Errorf("after a load without an override it is over %s", step())
	}
}

// An evicted model keeps the configuration of its load request, until a load without one finds other files.
func TestOverriddenModelComesBack_A065(t *testing.T) {
	r := newRig(t, nil)
	r.write("m/config.pbtxt", policy("latest { num_versions: 1 }"))
	r.write("m/1/file", "")
	r.load("m")
	if err := r.Load(t.Context(), "m", &Override{Config: overrideConfig}); err != nil {
		t.Fatal(err)
	}
	batch := func() int32 {
		s, _ := r.Model("m")
		return s.Config.GetMaxBatchSize()
	}
	r.write("m/2/file", "")
	for range 2 {
		r.askEvicted("with a newer version in the folder", 1)
		if batch() != 3 {
			t.Errorf("an evicted model with an override comes back with max_batch_size %d, want 3", batch())
		}
	}
	r.load("m")
	r.check("after a load without an override", "m", 2)
	if batch() != 4 {
		t.Errorf("after a load without an override: max_batch_size %d, want 4", batch())
	}
}

// An ensemble that could not be loaded comes up when what it lacks is there, however it was refused.
func TestEnsemblesComeUpWithTheirSteps_A069_A076(t *testing.T) {
	for _, namespaces := range []bool{false, true} {
		t.Run(fmt.Sprint("namespaces ", namespaces), func(t *testing.T) {
			r := newRig(t, func(o *Options) { o.Namespaces = namespaces })
			r.write("e/config.pbtxt", over("m"))
			r.write("e/1/file", "")
			r.pollAll()
			r.check("without its step", "e")
			r.pile()
			r.pollAll()
			r.check("with its step", "e", 1)
			r.write("e/config.pbtxt", over("other"))
			r.pollAll()
			r.check("with a new step that is not there", "e", 1)
			r.write("other/config.pbtxt", policy("all {}"))
			r.write("other/1/file", "")
			r.pollAll()
			r.check("with the new step", "e", 1)
			if s, _ := r.Model("e"); len(s.Versions) != 1 || s.Versions[0].Reason != "" ||
				s.Versions[0].Model.Config().GetEnsembleScheduling().GetStep()[0].GetModelName() != "other" {
				t.Errorf("the older version goes on although its new step is there: %+v", s.Versions)
			}
			r.write("e1/config.pbtxt", over("e2"))
			r.write("e1/1/file", "")
			r.write("e2/config.pbtxt", over("e1"))
			r.write("e2/1/file", "")
			r.pollAll()
			r.check("in a circle", "e1")
			r.write("e2/config.pbtxt", over("m"))
			r.pollAll()
			r.check("out of the circle", "e1", 1)
		})
	}
}

// An ensemble that goes on serving after a failed reload leaves service with a step that it runs.
func TestOlderEnsembleLosesItsStep_A067(t *testing.T) {
	r := newRig(t, nil)
	r.pile("e")
	r.write("e/config.pbtxt", over("nosuch"))
	if err := r.Load(t.Context(), "e", nil); err == nil {
		t.Fatal("a step that does not exist is accepted")
	}
	r.check("after a failed reload", "e", 1)
	r.Unload("m")
	r.check("without the step that it runs", "e")
}

// An unload of an older configuration's ensemble takes the steps that it runs.
func TestUnloadOfAnOlderEnsemble_A067(t *testing.T) {
	r := newRig(t, nil)
	r.pile("e")
	r.Unload("m")
	r.load("e") // pulls m as a step
	r.write("e/config.pbtxt", over("nosuch"))
	if err := r.Load(t.Context(), "e", nil); err == nil {
		t.Fatal("a step that does not exist is accepted")
	}
	r.UnloadAll("e")
	r.check("after the unload", "e")
	r.check("after the unload of the ensemble and its steps", "m")
}

// A step that is unloaded while an ensemble loads for the first time takes the ensemble out of service, also if it was
// there when the ensemble was checked.
func TestStepLeavesBeforeTheEnsembleServes_A069(t *testing.T) {
	calls, unloadAt := 0, -1
	for range 2 { // the first round finds out which look at the step is the last
		r := newRig(t, nil)
		r.write("m/config.pbtxt", policy("all {}"))
		r.write("m/1/file", "")
		r.load("m")
		r.write("e/config.pbtxt", over("m"))
		r.write("e/1/file", "")
		calls = 0
		look := r.loader.stepOf
		r.loader.stepOf = func(name string, version int64) (*inferencepb.ModelConfig, error) {
			cfg, err := look(name, version)
			if calls++; calls == unloadAt {
				r.Unload("m")
			}
			return cfg, err
		}
		err := r.Load(t.Context(), "e", nil)
		if unloadAt < 0 {
			unloadAt = calls
			continue
		}
		if err != nil {
			t.Errorf("the load, whose check passed: %v", err)
		}
		r.check("without its step", "e")
	}
}

// A load does not wait for another one of its model that begins when it has ended.
func TestALoadDoesNotWaitForTheNext(t *testing.T) {
	r := newRig(t, nil)
	r.pile()
	var next *entry
	loaded := make(chan error, 1)
	go func() {
		loaded <- dependentsOf(r.Manager).change("m", func(o *operation) (bool, error) {
			defer func() { next = r.lock("m", false) }()
			return o.loadRequested(t.Context(), "m", &override{config: overrideConfig})
		})
	}()
	select {
	case err := <-loaded:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the load waits for the next one")
	}
	next.op.Unlock()
}
