// Package inferencepb holds the wire types of the KServe v2 protocol with Triton's extensions: the messages and the
// service of grpc_service.proto, and the model configuration of model_config.proto.
//
// The .proto files in this folder are our own text with Triton's names, numbers and types, so existing clients and
// config.pbtxt files work unchanged. A test compares them field by field with the descriptors in the tritonclient
// wheel. build/scripts/genproto.sh generates the *.pb.go files; do not edit them.
//
// The configuration editor shows the comments of model_config.proto as help.
package inferencepb
