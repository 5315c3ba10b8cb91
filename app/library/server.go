package main

/*
#include <stdlib.h>
#include "options.h"
*/
import "C"

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime/cgo"
	"slices"
	"strings"
	"time"
	"unsafe"

	"nereid/engine"
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

var errNull = status.New(status.InvalidArg, "the server, or a pointer that the function needs, is NULL")

// with calls f with the server, unless it or one of the other pointers is NULL.
func with(s cServer, f func(*server) error, others ...bool) cError {
	if s == nil || slices.Contains(others, false) {
		return errorOf(errNull)
	}
	return errorOf(f(capi.ServerAt(unsafe.Pointer(s)).(*server)))
}

//export TRITONSERVER_ServerNew
func TRITONSERVER_ServerNew(made *cServer, o *C.TRITONSERVER_ServerOptions) cError {
	if made == nil || o == nil {
		return errorOf(errNull)
	}
	s, err := newServer(arguments(o), bool(o.no_metrics))
	if err == nil {
		*made = cServer(capi.NewServer(s))
	}
	return errorOf(err)
}

func arguments(o *C.TRITONSERVER_ServerOptions) (args []string) {
	for _, text := range unsafe.Slice(o.args, o.count) {
		args = append(args, C.GoString(text))
	}
	return args
}

// NEREID_FrontNew opens the ports that options turn on, for a server that exists. NEREID_FrontDelete closes them.
//
//export NEREID_FrontNew
func NEREID_FrontNew(front *C.uintptr_t, s cServer, o *C.TRITONSERVER_ServerOptions) cError {
	return with(s, func(s *server) error {
		f, err := s.OpenFront(context.Background(), arguments(o))
		if err == nil {
			*front = C.uintptr_t(cgo.NewHandle(func() { s.CloseFront(f) }))
		}
		return err
	}, front != nil, o != nil)
}

//export NEREID_FrontDelete
func NEREID_FrontDelete(front C.uintptr_t) {
	h := cgo.Handle(front)
	h.Value().(func())()
	h.Delete()
}

//export TRITONSERVER_ServerStop
func TRITONSERVER_ServerStop(s cServer) cError {
	return with(s, func(s *server) error { return s.stop() })
}

//export TRITONSERVER_ServerDelete
func TRITONSERVER_ServerDelete(s cServer) cError {
	if s == nil {
		return nil
	}
	return with(s, func(own *server) error {
		until := time.Now().Add(own.CloseLimit())
		return errors.Join(own.stop(), capi.ReleaseServer(unsafe.Pointer(s), until))
	})
}

//export TRITONSERVER_ServerSetExitTimeout
func TRITONSERVER_ServerSetExitTimeout(s cServer, seconds C.uint) cError {
	return with(s, func(s *server) error {
		s.SetExitTimeout(time.Duration(seconds) * time.Second)
		return nil
	})
}

// In poll mode the server finds changes by itself, at once where the file system reports them.
//
//export TRITONSERVER_ServerPollModelRepository
func TRITONSERVER_ServerPollModelRepository(s cServer) cError {
	return with(s, func(s *server) error {
		if s.engine.Mode() != engine.ModePoll {
			return status.New(status.Unavailable, "polling is disabled")
		}
		return nil
	})
}

// message stores the text that f returns.
func message(s cServer, m *cMessage, f func(*server) (tensorjson.JSON, error), others ...bool) cError {
	return with(s, func(s *server) error {
		text, err := f(s)
		if err == nil {
			C.TRITONSERVER_MessageNewFromSerializedJson(m, (*C.char)(unsafe.Pointer(unsafe.SliceData(text))),
				C.size_t(len(text))) // does not fail
		}
		return err
	}, append(others, m != nil)...)
}

//export TRITONSERVER_ServerMetadata
func TRITONSERVER_ServerMetadata(s cServer, m *cMessage) cError {
	return message(s, m, func(s *server) (tensorjson.JSON, error) {
		return httpapi.ServerMetadataJSON(s.engine.ServerMetadata()), nil
	})
}

//export TRITONSERVER_ServerModelMetadata
func TRITONSERVER_ServerModelMetadata(s cServer, name *C.char, version C.int64_t, m *cMessage) cError {
	return message(s, m, func(s *server) (tensorjson.JSON, error) {
		meta, err := s.engine.ModelMetadata(C.GoString(name), int64(version))
		if err != nil {
			return nil, err
		}
		return httpapi.ModelMetadataJSON(meta), nil
	}, name != nil)
}

//export TRITONSERVER_ServerModelStatistics
func TRITONSERVER_ServerModelStatistics(s cServer, name *C.char, version C.int64_t, m *cMessage) cError {
	return message(s, m, func(s *server) (tensorjson.JSON, error) {
		all, err := s.engine.ModelStatistics(C.GoString(name), int64(version)) // NULL stands for all models
		if err != nil {
			return nil, err
		}
		return httpapi.StatisticsJSON(all), nil
	})
}

//export TRITONSERVER_ServerModelConfig
func TRITONSERVER_ServerModelConfig(s cServer, name *C.char, version C.int64_t, form C.uint32_t, m *cMessage) cError {
	return message(s, m, func(s *server) (tensorjson.JSON, error) {
		if form != 1 {
			return nil, status.Errorf(status.InvalidArg,
				"model configuration version %d not supported, supported versions are: 1", form)
		}
		config, err := s.engine.ModelConfig(C.GoString(name), int64(version))
		if err != nil {
			return nil, err
		}
		return modelconfig.MarshalJSON(config), nil
	}, name != nil)
}

//export TRITONSERVER_ServerModelIndex
func TRITONSERVER_ServerModelIndex(s cServer, flags C.uint32_t, m *cMessage) cError {
	return message(s, m, func(s *server) (tensorjson.JSON, error) {
		return httpapi.IndexJSON(s.engine.RepositoryIndex(flags&C.INDEX_READY != 0)), nil
	})
}

//export TRITONSERVER_ServerModelBatchProperties
func TRITONSERVER_ServerModelBatchProperties(s cServer, name *C.char, version C.int64_t, flags *C.uint32_t,
	unused *unsafe.Pointer) cError {
	if unused != nil {
		*unused = nil
	}
	return with(s, func(s *server) error {
		config, err := s.engine.ModelConfig(C.GoString(name), int64(version))
		*flags = C.BATCH_UNKNOWN
		if config.GetMaxBatchSize() > 0 {
			*flags = C.BATCH_FIRST_DIM
		}
		return err
	}, name != nil, flags != nil)
}

//export TRITONSERVER_ServerRegisterModelRepository
func TRITONSERVER_ServerRegisterModelRepository(s cServer, path *C.char, names **C.TRITONSERVER_Parameter,
	count C.uint32_t) cError {
	return with(s, func(s *server) error {
		folders := map[string]string{}
		for _, p := range unsafe.Slice(names, count) {
			if p == nil || p._type != C.PARAMETER_STRING {
				return status.New(status.InvalidArg, "the name of a model must be a string parameter")
			}
			name := C.GoString(p.text)
			if _, twice := folders[name]; twice {
				return status.Errorf(status.InvalidArg,
					"failed to register '%s', there is a conflicting mapping for '%s'", C.GoString(path), name)
			}
			folders[name] = C.GoString(p.name)
		}
		return s.engine.RegisterRepository(C.GoString(path), folders)
	}, path != nil, names != nil || count == 0)
}

//export TRITONSERVER_ServerUnregisterModelRepository
func TRITONSERVER_ServerUnregisterModelRepository(s cServer, path *C.char) cError {
	return with(s, func(s *server) error { return s.engine.UnregisterRepository(C.GoString(path)) }, path != nil)
}

//export TRITONSERVER_ServerMetrics
func TRITONSERVER_ServerMetrics(s cServer, m **C.TRITONSERVER_Metrics) cError {
	return with(s, func(s *server) error {
		if s.noMetrics {
			return status.New(status.Unsupported, "metrics are disabled: see TRITONSERVER_ServerOptionsSetMetrics")
		}
		text := s.Metrics()
		*m = (*C.TRITONSERVER_Metrics)(C.must_have(C.calloc(1, C.sizeof_TRITONSERVER_Metrics)))
		C.set_message(&(*m).text, (*C.char)(unsafe.Pointer(unsafe.SliceData(text))), C.size_t(len(text)))
		return nil
	}, m != nil)
}

// The settings of a cache are members of a JSON object.
//
//export TRITONSERVER_ServerOptionsSetCacheConfig
func TRITONSERVER_ServerOptionsSetCacheConfig(o *C.TRITONSERVER_ServerOptions, name, settings *C.char) cError {
	if o == nil || name == nil || settings == nil {
		return errorOf(errNull)
	}
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
