// Package runtime runs models of frameworks by the C APIs of their own libraries, without Python: TensorFlow's
// SavedModels and frozen graphs, and what OpenVINO reads. The libraries are those of the frameworks' Python packages,
// or others that the user names; they are opened in processes of this program (package isolation), never in the
// server's.
//
// In the server a Backend finds the library and reads what a configuration is completed from; ServeWorker is the
// process, where the same backend loads a model (tensorflow.go, openvino.go) and executes batches (instance.go).
//
// Goroutines: those of package isolation.
package runtime
