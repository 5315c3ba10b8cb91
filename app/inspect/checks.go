package inspect

import (
	"slices"
	"strconv"
	"strings"

	"nereid/engine/backend"
	"nereid/engine/inferencepb"
	"nereid/engine/lifecycle"
	"nereid/engine/modelconfig"
)

// CheckParameters returns what the backend of a configuration says about the model's parameters. b and pos may be nil.
func CheckParameters(cfg *inferencepb.ModelConfig, b backend.Backend, pos *modelconfig.Positions) modelconfig.Faults {
	validator, ok := b.(backend.ParameterValidator)
	if !ok {
		return nil
	}
	var faults modelconfig.Faults
	for _, r := range validator.ValidateParameters(cfg) {
		if !r.Refused && slices.Contains(lifecycle.Parameters(), r.Name) {
			continue
		}
		path := "parameters[" + strconv.Quote(r.Name) + "]"
		fix, place := "", path
		if r.Refused {
			place = path + ".string_value"
		} else if s := modelconfig.Suggest(r.Name, slices.Concat(r.Known, lifecycle.Parameters())); s != "" {
			fix, place = "did you mean "+strconv.Quote(s)+"?", path+".key"
		}
		prefix := "parameter " + strconv.Quote(r.Name) + " "
		f := faultAt(pos, place, prefix+strings.TrimPrefix(r.Text, prefix), fix)
		f.Path = path
		if !r.Refused {
			f.Severity = modelconfig.SeverityWarning
		}
		faults = append(faults, f)
	}
	return faults
}

// CheckVersions returns a fault if the version policy selects none of the existing versions. pos may be nil.
func CheckVersions(cfg *inferencepb.ModelConfig, existing []int64, pos *modelconfig.Positions) modelconfig.Faults {
	if len(existing) == 0 || len(modelconfig.ChooseVersions(cfg.GetVersionPolicy(), existing)) > 0 {
		return nil
	}
	words := make([]string, len(existing))
	for i, n := range existing {
		words[i] = strconv.FormatInt(n, 10)
	}
	return modelconfig.Faults{faultAt(pos, "version_policy", "the version policy leaves no version to serve",
		"choose among those that are there: "+strings.Join(words, ", "))}
}

func faultAt(pos *modelconfig.Positions, path, message, fix string) modelconfig.Fault {
	at := pos.At(path)
	return modelconfig.Fault{File: pos.File(), Line: at.Line, Col: at.Col, Path: path, Message: message, Fix: fix}
}
