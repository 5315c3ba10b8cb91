package httpapi

import (
	"encoding/base64"
	"strconv"

	"nereid/engine/shm"
	"nereid/engine/status"
)

// serveSharedMemory answers status, register and unregister of both kinds of regions.
func (s *Server) serveSharedMemory(x *exchange) {
	var body []byte
	if x.is("POST") {
		buf, b, err := s.readBody(x, 0)
		if err != nil {
			s.replyBodyError(x, err)
			return
		}
		defer buf.Release()
		body = b
	}
	if err := s.sharedMemory(x, body); err != nil {
		x.failWith(typeJSON, err)
	}
}

func (s *Server) sharedMemory(x *exchange, body []byte) error {
	segment, ok := unescape(x.route.extra)
	if !ok {
		return status.New(status.InvalidArg, "the path has a malformed %-escape")
	}
	region, kind := string(segment), shm.System
	switch x.route.endpoint {
	case cudaShmStatus, cudaShmRegister, cudaShmUnregister:
		kind = shm.CUDA
	}
	var err error
	switch x.route.endpoint {
	case systemShmStatus, cudaShmStatus:
		list, err := s.regions.Status(kind, region)
		if err == nil {
			x.bytes(200, typeJSON, appendRegions(nil, kind, list))
		}
		return err
	case systemShmRegister:
		err = s.registerSystem(region, body)
	case cudaShmRegister:
		err = s.registerCUDA(region, body)
	default:
		err = s.regions.Unregister(kind, region)
	}
	if err == nil {
		x.empty(200, typeJSON)
	}
	return err
}

func (s *Server) registerSystem(region string, body []byte) error {
	if !s.regions.Allows(shm.System) || region == "" { // what is wrong with the body does not matter then
		return s.regions.RegisterSystem(region, "", 0, 0)
	}
	var key string
	var offset, size uint64
	hasKey, hasSize := false, false
	err := filledObject(body, func(sc *scanner, member []byte) (err error) {
		switch string(member) {
		case "key":
			hasKey = true
			key, err = sc.stringMember()
		case "offset":
			offset, err = sc.unsignedMember()
		case "byte_size":
			hasSize = true
			size, err = sc.unsignedMember()
		default:
			err = sc.skip()
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case !hasKey:
		return errNoField("key")
	case !hasSize:
		return errNoField("byte_size")
	}
	return s.regions.RegisterSystem(region, key, offset, size)
}

func (s *Server) registerCUDA(region string, body []byte) error {
	if !s.regions.Allows(shm.CUDA) || region == "" {
		return s.regions.RegisterCUDA(region, nil, 0, 0)
	}
	var handle []byte
	var device, size uint64
	hasHandle, hasDevice, hasSize := false, false, false
	err := filledObject(body, func(sc *scanner, member []byte) (err error) {
		switch string(member) {
		case "raw_handle":
			hasHandle = true
			handle, err = sc.base64Member()
		case "device_id":
			hasDevice = true
			device, err = sc.unsignedMember()
		case "byte_size":
			hasSize = true
			size, err = sc.unsignedMember()
		default:
			err = sc.skip()
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case !hasHandle:
		return errNoField("raw_handle")
	case !hasSize:
		return errNoField("byte_size")
	case !hasDevice:
		return errNoField("device_id")
	case len(handle) != shm.HandleSize:
		return errHandle
	}
	return s.regions.RegisterCUDA(region, handle, int64(device), size)
}

func errNoField(name string) error {
	return status.New(status.InvalidArg, "Shared memory register request has no '"+name+"' field")
}

var errHandle = status.New(status.InvalidArg, "'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t")

// stringMember reads a value that must be a string, as a copy.
func (s *scanner) stringMember() (string, error) {
	if s.peek() != '"' {
		return "", status.New(status.InvalidArg, nonString)
	}
	text, err := s.text()
	return string(text), err
}

// unsignedMember reads a value that must be a whole number, 0 or more.
func (s *scanner) unsignedMember() (uint64, error) {
	n, err := s.number()
	if err != nil {
		return 0, err
	}
	v, ok := n.unsigned()
	if !ok {
		return 0, status.New(status.InvalidArg, nonUnsigned)
	}
	return v, nil
}

// base64Member reads {"b64": "..."}.
func (s *scanner) base64Member() (handle []byte, err error) {
	if s.peek() != '{' {
		return nil, status.New(status.InvalidArg, nonObject)
	}
	has := false
	err = s.object(func(s *scanner, key []byte) error {
		if string(key) != "b64" {
			return s.skip()
		}
		has = true
		text, err := s.stringMember()
		if err != nil {
			return err
		}
		if handle, err = base64.StdEncoding.DecodeString(text); err != nil {
			return errHandle
		}
		return nil
	})
	if err == nil && !has {
		err = status.New(status.InvalidArg, "attempt to access non-existing object member 'b64'")
	}
	return handle, err
}

func appendRegions(b []byte, k shm.Kind, list []shm.Status) []byte {
	b = append(b, '[')
	for i, r := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"name":`...)
		b = appendString(b, r.Name)
		if k == shm.System {
			b = append(b, `,"key":`...)
			b = appendString(b, r.Key)
			b = append(b, `,"offset":`...)
			b = strconv.AppendUint(b, r.Offset, 10)
		} else {
			b = append(b, `,"device_id":`...)
			b = strconv.AppendInt(b, r.DeviceID, 10)
		}
		b = append(b, `,"byte_size":`...)
		b = strconv.AppendUint(b, r.ByteSize, 10)
		b = append(b, '}')
	}
	return append(b, ']')
}
