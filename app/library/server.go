package main

/*
#include <stdlib.h>
#include "options.h"
*/
import "C"

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"nereid/engine/backend/triton/capi"
	"nereid/engine/httpapi"
	"nereid/engine/httpapi/tensorjson"
	"nereid/engine/modelconfig"
	"nereid/engine/status"
)

// The functions in this file are those that tritonserver.h documents.

type (
	cError   = *C.TRITONSERVER_Error
	cServer  = *C.TRITONSERVER_Server
	cMessage = *C.TRITONSERVER_Message
)

func errorOf(err error) cError { return cError(capi.Error(err)) }

func at(s cServer) *server { return capi.ServerAt(unsafe.Pointer(s)).(*server) }

//export TRITONSERVER_ServerNew
func TRITONSERVER_ServerNew(made *cServer, o *C.TRITONSERVER_ServerOptions) cError {
	var args []string
	for _, text := range unsafe.Slice(o.args, o.count) {
		args = append(args, C.GoString(text))
	}
	s, err := newServer(args, bool(o.no_metrics))
	if err == nil {
		*made = cServer(capi.NewServer(s))
	}
	return errorOf(err)
}

//export TRITONSERVER_ServerStop
func TRITONSERVER_ServerStop(s cServer) cError { return errorOf(at(s).stop()) }

//export TRITONSERVER_ServerDelete
func TRITONSERVER_ServerDelete(s cServer) cError {
	if s == nil {
		return nil
	}
	err := at(s).stop()
	capi.ReleaseServer(unsafe.Pointer(s))
	return errorOf(err)
}

// message stores text, unless there is an error.
func message(m *cMessage, text tensorjson.JSON, err error) cError {
	if err != nil {
		return errorOf(err)
	}
	return C.TRITONSERVER_MessageNewFromSerializedJson(m, (*C.char)(unsafe.Pointer(unsafe.SliceData(text))),
		C.size_t(len(text)))
}

//export TRITONSERVER_ServerMetadata
func TRITONSERVER_ServerMetadata(s cServer, m *cMessage) cError {
	return message(m, httpapi.ServerMetadataJSON(at(s).engine.ServerMetadata()), nil)
}

//export TRITONSERVER_ServerModelMetadata
func TRITONSERVER_ServerModelMetadata(s cServer, name *C.char, version C.int64_t, m *cMessage) cError {
	meta, err := at(s).engine.ModelMetadata(C.GoString(name), int64(version))
	return message(m, httpapi.ModelMetadataJSON(meta), err)
}

//export TRITONSERVER_ServerModelStatistics
func TRITONSERVER_ServerModelStatistics(s cServer, name *C.char, version C.int64_t, m *cMessage) cError {
	all, err := at(s).engine.ModelStatistics(C.GoString(name), int64(version))
	return message(m, httpapi.StatisticsJSON(all), err)
}

//export TRITONSERVER_ServerModelConfig
func TRITONSERVER_ServerModelConfig(s cServer, name *C.char, version C.int64_t, form C.uint32_t, m *cMessage) cError {
	if form != 1 {
		return errorOf(status.Errorf(status.InvalidArg,
			"model configuration version %d not supported, supported versions are: 1", form))
	}
	config, err := at(s).engine.ModelConfig(C.GoString(name), int64(version))
	if err != nil {
		return errorOf(err)
	}
	return message(m, modelconfig.MarshalJSON(config), nil)
}

//export TRITONSERVER_ServerModelIndex
func TRITONSERVER_ServerModelIndex(s cServer, flags C.uint32_t, m *cMessage) cError {
	return message(m, httpapi.IndexJSON(at(s).engine.RepositoryIndex(flags&C.INDEX_READY != 0)), nil)
}

//export TRITONSERVER_ServerModelBatchProperties
func TRITONSERVER_ServerModelBatchProperties(s cServer, name *C.char, version C.int64_t, flags *C.uint32_t,
	unused *unsafe.Pointer) cError {
	if unused != nil {
		*unused = nil
	}
	config, err := at(s).engine.ModelConfig(C.GoString(name), int64(version))
	*flags = C.BATCH_UNKNOWN
	if config.GetMaxBatchSize() > 0 {
		*flags = C.BATCH_FIRST_DIM
	}
	return errorOf(err)
}

//export TRITONSERVER_ServerRegisterModelRepository
func TRITONSERVER_ServerRegisterModelRepository(s cServer, path *C.char, names **C.TRITONSERVER_Parameter,
	count C.uint32_t) cError {
	folders := map[string]string{}
	for _, p := range unsafe.Slice(names, count) {
		if p._type != C.PARAMETER_STRING {
			return errorOf(status.New(status.InvalidArg, "the name of a model must be a string parameter"))
		}
		folders[C.GoString(p.text)] = C.GoString(p.name)
	}
	return errorOf(at(s).engine.RegisterRepository(repository(path), folders))
}

//export TRITONSERVER_ServerUnregisterModelRepository
func TRITONSERVER_ServerUnregisterModelRepository(s cServer, path *C.char) cError {
	return errorOf(at(s).engine.UnregisterRepository(repository(path)))
}

// repository returns the path of a repository as the server has it: absolute, unless it is an address.
func repository(path *C.char) string {
	text := C.GoString(path)
	if folder, err := filepath.Abs(text); err == nil && !strings.Contains(text, "://") {
		return folder
	}
	return text
}

//export TRITONSERVER_ServerMetrics
func TRITONSERVER_ServerMetrics(s cServer, m **C.TRITONSERVER_Metrics) cError {
	if at(s).noMetrics {
		return errorOf(status.New(status.Unsupported, "metrics are disabled: see TRITONSERVER_ServerOptionsSetMetrics"))
	}
	text := at(s).Metrics()
	*m = (*C.TRITONSERVER_Metrics)(C.must_have(C.calloc(1, C.sizeof_TRITONSERVER_Metrics)))
	C.set_message(&(*m).text, (*C.char)(unsafe.Pointer(unsafe.SliceData(text))), C.size_t(len(text)))
	return nil
}

// The settings of a cache are members of a JSON object.
//
//export TRITONSERVER_ServerOptionsSetCacheConfig
func TRITONSERVER_ServerOptionsSetCacheConfig(o *C.TRITONSERVER_ServerOptions, name, settings *C.char) cError {
	var all map[string]any
	d := json.NewDecoder(strings.NewReader(C.GoString(settings)))
	d.UseNumber()
	if err := d.Decode(&all); err != nil {
		return errorOf(status.Errorf(status.InvalidArg, "the configuration of a cache must be a JSON object: %w", err))
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		text := C.CString(fmt.Sprintf("--cache-config=%s,%s=%v", C.GoString(name), key, all[key]))
		C.option_text(o, text)
		C.free(unsafe.Pointer(text))
	}
	return nil
}
