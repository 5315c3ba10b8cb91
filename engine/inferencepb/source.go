package inferencepb

import _ "embed" // for the text of model_config.proto

//go:embed model_config.proto
var modelConfigProto string

// ModelConfigProto returns the text of model_config.proto, whose comments describe every field.
func ModelConfigProto() string { return modelConfigProto }
