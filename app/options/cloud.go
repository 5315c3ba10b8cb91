package options

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"nereid/engine/httpapi/compat"
)

// SageMaker are the options and variables of Amazon SageMaker's containers.
type SageMaker struct {
	compat.SageMaker
	// Ports is the range in which the ports of other services must lie; nil: anywhere.
	Ports *[2]int
}

// VertexAI are the options and variables of Google Vertex AI's containers.
type VertexAI struct {
	compat.VertexAI
	DefaultModel string // answers predictions; "": the only model
	repository   string // the model repository when the command line names none
}

// readCloud takes defaults from the environment. Under Vertex AI its service is on, and HTTP and gRPC are off.
func (c *Config) readCloud(lookup func(string) (string, bool)) error {
	get := func(name, def string) string {
		if v, ok := lookup(name); ok && v != "" {
			return v
		}
		return def
	}
	s, v, l := &c.SageMaker, &c.VertexAI, &c.Listen
	s.Model = get("SAGEMAKER_TRITON_DEFAULT_MODEL_NAME", "unspecified_SAGEMAKER_TRITON_DEFAULT_MODEL_NAME")
	s.Kind = get("SAGEMAKER_TRITON_INFERENCE_TYPE", "infer")
	s.PingLive = get("SAGEMAKER_TRITON_PING_MODE", "ready") == "live"
	v.Predict, v.Health = get("AIP_PREDICT_ROUTE", ""), get("AIP_HEALTH_ROUTE", "")
	v.repository = get("AIP_STORAGE_URI", "")
	if get("AIP_MODE", "") == "PREDICTION" {
		l.VertexAI.On, l.HTTP.On, l.GRPC.On = true, false, false
		for option, value := range map[string]string{
			"allow-vertex-ai": "true", "allow-http": "false", "allow-grpc": "false",
		} {
			c.origin[option] = []setting{{option, value, "AIP_MODE"}}
		}
	}
	at := get("AIP_HTTP_PORT", "")
	if at == "" {
		return nil
	}
	if port(&l.VertexAI.Port)(at) != nil {
		return fmt.Errorf("AIP_HTTP_PORT: %q is not a port", at)
	}
	c.origin["vertex-ai-port"] = []setting{{"vertex-ai-port", at, "AIP_HTTP_PORT"}}
	return nil
}

// checkCloud checks what readCloud and the options say.
func (c *Config) checkCloud() error {
	var errs []error
	if c.Listen.VertexAI.On {
		for _, route := range []struct{ name, value string }{
			{"AIP_PREDICT_ROUTE", c.VertexAI.Predict}, {"AIP_HEALTH_ROUTE", c.VertexAI.Health},
		} {
			if route.value == "" {
				errs = append(errs, fmt.Errorf("--allow-vertex-ai: %s is not defined for Vertex AI endpoint; set it "+
					"in the environment", route.name))
			}
		}
		if len(c.Engine.Repositories) == 0 && c.VertexAI.repository != "" {
			c.Engine.Repositories = []string{c.VertexAI.repository}
		}
	}
	if !c.Listen.SageMaker.On {
		return errors.Join(errs...)
	}
	if !slices.Contains([]string{"infer", "generate", "generate_stream"}, c.SageMaker.Kind) {
		errs = append(errs, fmt.Errorf("SAGEMAKER_TRITON_INFERENCE_TYPE: %q is none of infer, generate, "+
			"generate_stream",
			c.SageMaker.Kind))
	}
	for _, e := range c.Listen.All() {
		r := c.SageMaker.Ports
		if r == nil || !e.On || e == &c.Listen.SageMaker || e == &c.Listen.UI || e == &c.Listen.Kiosk ||
			r[0] <= e.Port && e.Port <= r[1] {
			continue
		}
		errs = append(errs, fmt.Errorf("--%s-port: %d is outside of --sagemaker-safe-port-range=%d-%d",
			e.Name, e.Port, r[0], r[1]))
	}
	return errors.Join(errs...)
}

// portRange reads "low-high".
func portRange(field **[2]int) setter {
	return func(v string) error {
		low, high, ok := strings.Cut(v, "-")
		a, err := strconv.Atoi(low)
		b, err2 := strconv.Atoi(high)
		if !ok || err != nil || err2 != nil || a < 0 || b > 65535 || a > b {
			return fmt.Errorf("%q is not a range of ports such as 8000-8100", v)
		}
		*field = &[2]int{a, b}
		return nil
	}
}
