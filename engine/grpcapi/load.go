package grpcapi

// LoadParameters are what a load request says beside the model's name.
type LoadParameters = struct {
	ConfigJSON string
	Files      map[string][]byte
}
