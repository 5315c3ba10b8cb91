// Package licenses holds the licences of the software in the program: Go, the modules, the packages of the page, and
// ONNX Runtime. build/tools/licenses writes the file.
package licenses
