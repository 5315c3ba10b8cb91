// Package licenses holds the licences of what the program is made of: Go, the modules that are compiled in, what the page is
// made of, and ONNX Runtime. build/tools/licenses writes the file.
package licenses
