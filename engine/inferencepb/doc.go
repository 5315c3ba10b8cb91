// Package inferencepb holds the wire types of the KServe v2 protocol with Triton's extensions: the
// messages and the service of grpc_service.proto, and the model configuration of model_config.proto.
//
// The .proto files beside this one are ours; names, numbers and types are Triton's, so that existing
// clients and config.pbtxt files work unchanged. A test compares them field by field with the
// descriptors that the tritonclient wheel carries. The *.pb.go files are generated from them by
// build/scripts/genproto.sh; do not edit them.
//
// The comments of model_config.proto are what the configuration editor shows as help.
package inferencepb
