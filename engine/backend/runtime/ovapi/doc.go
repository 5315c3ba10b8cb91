// Package ovapi is OpenVINO's C API, opened at run time from libopenvino_c: models of every format that its frontends
// read are compiled for a device and run by infer requests. Only what is used is declared; nothing is linked.
//
// The library stays for the life of the process. Messages are OpenVINO's. No goroutines.
package ovapi
