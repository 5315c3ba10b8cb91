// Package modelmesh lets ModelMesh decide which models the server serves: it implements the service mmesh.ModelRuntime
// of https://github.com/kserve/modelmesh. ModelMesh runs beside the server and brings the files.
//
// A model that is to be loaded is copied into a repository of this package and arranged as an import does it: a file
// such as model.onnx, a folder of Triton's layout or a package of another program. Its name is ModelMesh's id. Requests
// for it come through the server's gRPC service; ModelMesh puts the id into their field model_name.
package modelmesh
