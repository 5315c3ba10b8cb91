package model

import (
	"slices"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
)

// tensorKeeper is a trace that may copy the tensors of a request.
type tensorKeeper interface{ KeepsTensors() bool }

// takesDevices returns loaded if requests may have tensors on GPUs, else nil. They may if only the backend reads the
// tensors.
func takesDevices(cfg *inferencepb.ModelConfig, loaded backend.Model, cached bool) backend.DeviceMemoryUser {
	user, ok := loaded.(backend.DeviceMemoryUser)
	// The batcher compares the values of shape tensors.
	shapes := slices.ContainsFunc(cfg.GetInput(), (*inferencepb.ModelInput).GetIsShapeTensor)
	if !ok || cached || shapes || cfg.GetSequenceBatching() != nil {
		return nil
	}
	return user
}

// TakesDeviceMemory reports whether the inputs of a request may be in the memory of a GPU.
func (m *Model) TakesDeviceMemory(gpu int) bool {
	return m.devices != nil && m.devices.UsesDeviceMemory(gpu)
}

// placeTensors decides whether the tensors of a checked request may stay on a GPU, and copies its inputs to the host if
// they may not. Inputs on a GPU reach a model that does not take them in two cases: the model was reloaded after the
// front end called TakesDeviceMemory, or a trace copies the tensors. Errors: InvalidArg if the inputs cannot be read.
func (m *Model) placeTensors(r *infer.Request) error {
	k, ok := r.Trace.(tensorKeeper)
	r.OnDevice = m.devices != nil && !(ok && k.KeepsTensors())
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
