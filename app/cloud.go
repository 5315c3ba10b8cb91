package app

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"nereid/engine/httpapi"
	"nereid/engine/httpapi/compat"
	"nereid/engine/status"
)

// cloudConfig is what SageMaker and Vertex AI say by options and in the environment of their containers.
type cloudConfig struct {
	AllowSageMaker      bool
	SageMakerPort       int
	SageMakerRange      [2]int // ports that other services may have beside it; zero: any
	SageMakerModel      string
	SageMakerKind       string // infer, generate or generate_stream
	SageMakerPingLive   bool
	AllowVertexAI       bool
	VertexAIPort        int
	VertexAIModel       string
	VertexAIPredict     string // paths
	VertexAIHealth      string
	vertexAIRepository  string
	sageMakerRangeGiven bool
}

// readCloud takes the defaults from the environment. Under Vertex AI its service is on, and HTTP and gRPC are off.
func (c *Config) readCloud(lookup func(string) (string, bool)) error {
	get := func(name, def string) string {
		if v, ok := lookup(name); ok && v != "" {
			return v
		}
		return def
	}
	c.SageMakerPort = 8080
	c.SageMakerModel = get("SAGEMAKER_TRITON_DEFAULT_MODEL_NAME", "unspecified_SAGEMAKER_TRITON_DEFAULT_MODEL_NAME")
	c.SageMakerKind = get("SAGEMAKER_TRITON_INFERENCE_TYPE", "infer")
	c.SageMakerPingLive = get("SAGEMAKER_TRITON_PING_MODE", "ready") == "live"
	c.VertexAIPredict, c.VertexAIHealth = get("AIP_PREDICT_ROUTE", ""), get("AIP_HEALTH_ROUTE", "")
	c.vertexAIRepository = get("AIP_STORAGE_URI", "")
	if get("AIP_MODE", "") == "PREDICTION" {
		c.AllowVertexAI, c.AllowHTTP, c.AllowGRPC = true, false, false
	}
	var err error
	if c.VertexAIPort, err = strconv.Atoi(get("AIP_HTTP_PORT", "8080")); err != nil || c.VertexAIPort < 0 || c.VertexAIPort > 65535 {
		return fmt.Errorf("AIP_HTTP_PORT: %q is not a port", get("AIP_HTTP_PORT", ""))
	}
	return nil
}

// checkCloud checks what readCloud and the options say.
func (c *Config) checkCloud() error {
	var errs []error
	if c.AllowVertexAI {
		if c.VertexAIPredict == "" {
			errs = append(errs, errors.New("--allow-vertex-ai: AIP_PREDICT_ROUTE is not defined for Vertex AI endpoint; set it in the environment"))
		}
		if c.VertexAIHealth == "" {
			errs = append(errs, errors.New("--allow-vertex-ai: AIP_HEALTH_ROUTE is not defined for Vertex AI endpoint; set it in the environment"))
		}
		if len(c.Repositories) == 0 && c.vertexAIRepository != "" {
			c.Repositories = []string{c.vertexAIRepository}
		}
	}
	if c.AllowSageMaker {
		if !slices.Contains([]string{"infer", "generate", "generate_stream"}, c.SageMakerKind) {
			errs = append(errs, fmt.Errorf("SAGEMAKER_TRITON_INFERENCE_TYPE: %q is none of infer, generate, generate_stream", c.SageMakerKind))
		}
		if c.sageMakerRangeGiven {
			for _, e := range c.endpoints() {
				if e.on && e.option != "sagemaker" && e.option != "ui" && (e.port < c.SageMakerRange[0] || e.port > c.SageMakerRange[1]) {
					errs = append(errs, fmt.Errorf("--%s-port: %d is outside of --sagemaker-safe-port-range=%d-%d", e.option, e.port, c.SageMakerRange[0], c.SageMakerRange[1]))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// portRange reads "low-high".
func portRange(c *Config, v string) error {
	low, high, ok := strings.Cut(v, "-")
	a, err := strconv.Atoi(low)
	b, err2 := strconv.Atoi(high)
	if !ok || err != nil || err2 != nil || a < 0 || b > 65535 || a > b {
		return fmt.Errorf("%q is not a range of ports such as 8000-8100", v)
	}
	c.SageMakerRange, c.sageMakerRangeGiven = [2]int{a, b}, true
	return nil
}

// cloudRepository is the model repository of SageMaker's archives, "" where there are none.
func (s *server) cloudRepository() (string, error) {
	if !s.c.AllowSageMaker || s.c.ControlMode != "explicit" {
		return "", nil
	}
	dir := s.data.join("archives")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return "", fmt.Errorf("cannot prepare the folder of archives: %w", err)
	}
	return dir, nil
}

// openCloud makes the servers of SageMaker and Vertex AI.
func (s *server) openCloud() error {
	common := func(o httpapi.Options) (*httpapi.Server, error) {
		o.Engine, o.Log, o.MaxBody, o.Metrics = s.engine, s.log, int64(s.c.HTTPMaxInput), s.metricsText()
		o.AllowedHosts, o.Authorize, o.Restricted = s.allowedHosts(s.c.HTTPAddress), authorizeHTTP(s.tokens), s.c.HTTPRestricted
		return httpapi.New(o)
	}
	s.cloud = map[string]*httpapi.Server{}
	if s.c.AllowSageMaker {
		o := &compat.SageMaker{Model: s.c.SageMakerModel, Kind: s.c.SageMakerKind, PingLive: s.c.SageMakerPingLive}
		if s.archives != "" {
			o.Archives = newArchives(s.engine, archiveRoot, s.archives)
		}
		srv, err := common(httpapi.Options{SageMaker: o})
		if err != nil {
			return err
		}
		s.cloud["sagemaker"] = srv
	}
	if s.c.AllowVertexAI {
		srv, err := common(httpapi.Options{VertexAI: &compat.VertexAI{
			Predict: s.c.VertexAIPredict, Health: s.c.VertexAIHealth, Model: s.vertexAIModel,
		}})
		if err != nil {
			return err
		}
		s.cloud["vertex-ai"] = srv
	}
	return nil
}

// vertexAIModel names the model of predictions: the one that was asked for, or the only one that is ready.
func (s *server) vertexAIModel() string {
	if s.c.VertexAIModel != "" {
		return s.c.VertexAIModel
	}
	ready := s.engine.RepositoryIndex(true)
	if len(ready) != 1 {
		return ""
	}
	return ready[0].GetName()
}

// checkVertexAI refuses to start where no model answers predictions.
func (s *server) checkVertexAI() error {
	switch name := s.vertexAIModel(); {
	case !s.c.AllowVertexAI:
	case name == "":
		return status.New(status.InvalidArg, "Expect the model repository contains only a single model if default model is not specified; say --vertex-ai-default-model=<name>")
	default:
		for _, m := range s.engine.RepositoryIndex(true) {
			if m.GetName() == name {
				return nil
			}
		}
		return status.Errorf(status.InvalidArg, "Expect the default model '%s' is loaded", name)
	}
	return nil
}
