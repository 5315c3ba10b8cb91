package httpapi

import (
	"encoding/base64"
	"slices"

	"nereid/engine/httpapi/tensorjson"
	"nereid/engine/shm"
	"nereid/engine/status"
	"nereid/engine/system/socket"
)

// regionKind has the handlers for one kind of shared memory regions.
type regionKind shm.Kind

const (
	systemRegions = regionKind(shm.System)
	cudaRegions   = regionKind(shm.CUDA)
)

func (k regionKind) status(s *Server, x *exchange) error {
	region, err := unescape(x.route.name)
	if err != nil {
		return err
	}
	list, err := s.regions.Status(shm.Kind(k), region)
	if err != nil {
		return err
	}
	x.json(tensorjson.Array(list, func(r shm.Status) tensorjson.JSON {
		if k == cudaRegions {
			return tensorjson.Object("name", r.Name, "device_id", r.DeviceID, "byte_size", r.ByteSize)
		}
		return tensorjson.Object("name", r.Name, "key", r.Key, "offset", r.Offset, "byte_size", r.ByteSize)
	}))
	return nil
}

func (k regionKind) register(s *Server, x *exchange) error {
	return s.changeRegion(x, func(region string, body []byte) error {
		if k == cudaRegions {
			return registerCUDA(s.regions, region, body)
		}
		return registerSystem(s.regions, region, body, func() (int, bool) {
			return socket.PeerUser(x.conn.Conn)
		})
	})
}

func (k regionKind) unregister(s *Server, x *exchange) error {
	return s.changeRegion(x, func(region string, _ []byte) error { return s.regions.Unregister(shm.Kind(k), region) })
}

// changeRegion calls change with the name of the path's region and the body.
func (s *Server) changeRegion(x *exchange, change func(region string, body []byte) error) error {
	return s.withBody(x, func(body []byte) error {
		region, err := unescape(x.route.name)
		if err == nil {
			err = change(region, body)
		}
		if err == nil {
			x.empty(200, typeJSON)
		}
		return err
	})
}

// registration is what a body of a registration may hold.
type registration struct {
	key                  string
	handle               []byte
	offset, size, device uint64
}

// parseRegistration reads a body that must have the needed fields. The errors' order is that of needed.
func parseRegistration(body []byte, needed ...string) (registration, error) {
	var r registration
	var found []string
	err := tensorjson.ReadObject(body, func(s *tensorjson.Scanner, key []byte) (err error) {
		name := string(key)
		found = append(found, name)
		switch {
		case name == "offset" && slices.Contains(needed, "key"):
			r.offset, err = s.Unsigned()
		case !slices.Contains(needed, name):
			err = s.Skip()
		case name == "key":
			r.key, err = s.String()
		case name == "byte_size":
			r.size, err = s.Unsigned()
		case name == "device_id":
			r.device, err = s.Unsigned()
		case name == "raw_handle":
			r.handle, err = parseHandle(s)
		}
		return err
	})
	for _, name := range needed {
		if err == nil && !slices.Contains(found, name) {
			err = status.New(status.InvalidArg, "Shared memory register request has no '"+name+"' field")
		}
	}
	return r, err
}

func registerSystem(regions *shm.Registry, region string, body []byte, client shm.Client) error {
	if !regions.Allows(shm.System) || region == "" { // the registry refuses it, whatever the body holds
		return regions.RegisterSystem(region, "", 0, 0, client)
	}
	r, err := parseRegistration(body, "key", "byte_size")
	if err != nil {
		return err
	}
	return regions.RegisterSystem(region, r.key, r.offset, r.size, client)
}

func registerCUDA(regions *shm.Registry, region string, body []byte) error {
	if !regions.Allows(shm.CUDA) || region == "" {
		return regions.RegisterCUDA(region, nil, 0, 0)
	}
	r, err := parseRegistration(body, "raw_handle", "byte_size", "device_id")
	if err == nil && len(r.handle) != shm.HandleSize {
		err = errHandle
	}
	if err != nil {
		return err
	}
	return regions.RegisterCUDA(region, r.handle, int64(r.device), r.size) //nolint:gosec // a wrong number is no device
}

var errHandle = status.New(status.InvalidArg, "'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t")

// parseHandle reads {"b64": "..."}.
func parseHandle(s *tensorjson.Scanner) (handle []byte, err error) {
	found := false
	err = s.Object(func(key []byte) error {
		if string(key) != "b64" {
			return s.Skip()
		}
		found = true
		text, err := s.Text()
		if err == nil {
			if handle, err = base64.StdEncoding.AppendDecode(nil, text); err != nil {
				err = errHandle
			}
		}
		return err
	})
	if err == nil && !found {
		err = status.New(status.InvalidArg, "attempt to access non-existing object member 'b64'")
	}
	return handle, err
}
