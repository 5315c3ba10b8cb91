package model

import (
	"slices"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
)

// tensorKeeper is a trace that may want to copy a request's tensors.
type tensorKeeper interface{ KeepsTensors() bool }

// takesDevices returns loaded if requests may have tensors on GPUs: nothing but the backend reads them then.
func takesDevices(cfg *inferencepb.ModelConfig, loaded backend.Model, cached bool) backend.DeviceMemoryUser {
	user, ok := loaded.(backend.DeviceMemoryUser)
	// requests are compared by their values
	shapes := slices.ContainsFunc(cfg.GetInput(), (*inferencepb.ModelInput).GetIsShapeTensor)
	if !ok || cached || shapes || cfg.GetSequenceBatching() != nil {
		return nil
	}
	return user
}

// TakesDeviceMemory reports whether a request's input may come as memory of a GPU.
func (m *Model) TakesDeviceMemory(gpu int) bool {
	return m.devices != nil && m.devices.UsesDeviceMemory(gpu)
}

// settle decides where the tensors of a request that has just been checked are to be. Inputs on a GPU come to one that
// takes none when the model was loaded anew after they were looked at, or when somebody wants to see them: they are
// copied to the host. Errors: InvalidArg when they cannot be read.
func (m *Model) settle(r *infer.Request) error {
	watched := false
	if k, ok := r.Trace.(tensorKeeper); ok {
		watched = k.KeepsTensors()
	}
	r.OnDevice = m.devices != nil && !watched
	if r.OnDevice {
		return nil
	}
	for i := range r.Inputs {
		buf, err := r.Inputs[i].ToHost(&m.hosts)
		if err != nil {
			return err
		}
		if buf != nil {
			r.Own(buf)
		}
	}
	return nil
}
