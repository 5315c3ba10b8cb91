package console

import (
	"strings"
	"testing"

	"nereid/app/console/api"
	"nereid/engine"
	"nereid/engine/backend"
	"nereid/engine/inferencepb"
	"nereid/engine/system/affinity"
)

// judging is a backend that refuses the parameter bad and knows good.
type judging struct{ backend.Backend }

func (judging) ValidateParameters(cfg *inferencepb.ModelConfig) (all []backend.ParameterRemark) {
	for name, p := range cfg.GetParameters() {
		switch {
		case name == "threads" && p.GetStringValue() != "1":
			all = append(all, backend.ParameterRemark{Name: name, Text: "is wrong; want 1", Refused: true})
		case name != "threads":
			all = append(all, backend.ParameterRemark{Name: name, Text: "has no effect", Known: []string{"threads"}})
		}
	}
	return all
}

func TestParametersAreJudged(t *testing.T) {
	r := newRig(t, engine.ModeExplicit, func(o *Options) {
		for i, b := range o.Backends {
			if b.Name() == "onnxruntime" {
				o.Backends[i] = judging{b}
			}
		}
	})
	check := func(parameters string) []api.Fault {
		text := "backend: \"onnxruntime\"\n" + parameters
		return get[api.CheckResult](r, 200, "POST", "/api/config/check", api.CheckRequest{Model: "ready", Text: text}).Faults
	}
	one := func(key, value string) string {
		return "parameters {\n  key: \"" + key + "\"\n  value { string_value: \"" + value + "\" }\n}\n"
	}
	if f := check(one("threads", "1") + one("residency", "pinned")); len(f) != 0 {
		t.Errorf("good ones: %+v", f)
	}
	if f := check(one("threads", "x")); len(f) != 1 || f[0].Severity != api.SeverityError || f[0].Line != 4 || f[0].Message != `parameter "threads" is wrong; want 1` {
		t.Errorf("a bad value: %+v", f)
	}
	f := check(one("thread", "1"))
	if len(f) != 1 || f[0].Severity != api.SeverityWarning || f[0].Line != 3 || !strings.Contains(f[0].Message, "has no effect") || len(f[0].Fixes) != 1 ||
		f[0].Fixes[0].Edits[0].Text != `"threads"` {
		t.Errorf("an unknown one: %+v", f)
	}
	if f := check(one("reload_polcy", "x")); len(f) != 1 || len(f[0].Fixes) != 1 || f[0].Fixes[0].Edits[0].Text != `"reload_policy"` {
		t.Errorf("one of the server's: %+v", f)
	}
}

func TestInstanceGroupsOfAText(t *testing.T) {
	r := newRig(t, engine.ModeExplicit, func(o *Options) { o.HostPolicies = map[string]affinity.Policy{"big": {Cores: []int{0, 1}}} })
	v := get[api.CheckResult](r, 200, "POST", "/api/config/check", api.CheckRequest{Model: "ready", Text: `backend: "onnxruntime"
instance_group [ { count: 2 kind: KIND_CPU host_policy: "big" }, { kind: KIND_GPU gpus: [ 0, 2 ] rate_limiter { priority: 1 } passive: true } ]`})
	if len(v.Groups) != 2 {
		t.Fatalf("groups = %+v", v.Groups)
	}
	if g := v.Groups[0]; g.Count != 2 || g.Kind != "KIND_CPU" || g.HostPolicy != "big" || g.Other {
		t.Errorf("the first = %+v", g)
	}
	if g := v.Groups[1]; g.Count != 0 || g.Kind != "KIND_GPU" || len(g.GPUs) != 2 || g.GPUs[1] != 2 || !g.Other || !g.Passive {
		t.Errorf("the second = %+v", g)
	}
	if m := get[api.Machine](r, 200, "GET", "/api/machine", nil); len(m.HostPolicies) != 1 || m.HostPolicies[0] != (api.HostPolicy{Name: "big", Affinity: "cpu-cores=0-1"}) {
		t.Errorf("host policies = %+v", m.HostPolicies)
	}
}
