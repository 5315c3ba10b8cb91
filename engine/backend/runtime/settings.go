package runtime

import (
	"os"
	"slices"
	"strings"

	"nereid/engine/backend"
	"nereid/engine/modelconfig"
	"nereid/engine/status"
)

// Known reports whether there is a setting of --backend-config=<name>,key=value.
func Known(name, key string) bool {
	if !slices.Contains(Names(), name) {
		return false
	}
	switch key {
	case "library":
		return true
	case "allow-soft-placement", "gpu-memory-fraction", "version", "op-library-directory":
		return name == modelconfig.BackendTensorFlow
	}
	return false
}

// CheckSetting returns InvalidArg if the value of a known setting is invalid.
func CheckSetting(name, key, value string) error {
	err := error(nil)
	if name == modelconfig.BackendTensorFlow {
		err = checkTensorFlow(key, value)
	}
	if key == "library" || key == "op-library-directory" {
		_, err = os.Stat(value)
	}
	if err != nil {
		return status.Errorf(status.InvalidArg, "backend-config %s,%s: %w", name, key, err)
	}
	return nil
}

// refuse returns an error for a configuration that uses what these frameworks do not support here.
func refuse(s backend.Spec, name string) error {
	if len(s.Config.GetSequenceBatching().GetState()) > 0 {
		return status.Errorf(status.Unsupported,
			"model '%s' has sequence_batching state, which the %s backend does not keep; convert the model to "+
				"ONNX, or keep the state in the client", s.ModelName, name)
	}
	acc := s.Config.GetOptimization().GetExecutionAccelerators()
	asked := append(acc.GetGpuExecutionAccelerator(), acc.GetCpuExecutionAccelerator()...)
	if len(asked) == 0 {
		return nil
	}
	a := asked[0].GetName()
	if name == modelconfig.BackendTensorFlow && strings.EqualFold(a, "tensorrt") {
		return status.Errorf(status.Unsupported,
			"model '%s' asks for the execution accelerator 'tensorrt' (TF-TRT), which TensorFlow's packages no "+
				"longer have; take it out, or convert the model to ONNX (python -m tf2onnx.convert) and ask for the "+
				"accelerator there", s.ModelName)
	}
	return status.Errorf(status.Unsupported,
		"model '%s' asks for the execution accelerator '%s', which the %s backend does not have; take it out",
		s.ModelName, a, name)
}
