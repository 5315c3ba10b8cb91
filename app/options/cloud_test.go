package options

import (
	"slices"
	"strings"
	"testing"
)

func TestVertexAIEnvironment_H060_H090_G015(t *testing.T) {
	env := map[string]string{
		"AIP_MODE": "PREDICTION", "AIP_HTTP_PORT": "7080", "AIP_PREDICT_ROUTE": "/predict",
		"AIP_HEALTH_ROUTE": "/health", "AIP_STORAGE_URI": "/models",
	}
	lookup := func(k string) (string, bool) { v, ok := env[k]; return v, ok }
	c, err := Load(true, []string{"--data-dir=" + t.TempDir()}, lookup)
	if err != nil {
		t.Fatal(err)
	}
	if !c.Listen.VertexAI.On || c.Listen.HTTP.On || c.Listen.GRPC.On || c.Listen.VertexAI.Port != 7080 ||
		c.VertexAI.Predict != "/predict" || c.VertexAI.Health != "/health" ||
		!slices.Equal(c.Engine.Repositories, []string{"/models"}) {
		t.Errorf("the environment gives %+v", c.VertexAI)
	}
	c, err = Load(true, []string{"--data-dir=" + t.TempDir(), "--allow-http=true", "--vertex-ai-port=9000",
		"--model-repository=/own"}, lookup)
	if err != nil || !c.Listen.HTTP.On || c.Listen.VertexAI.Port != 9000 ||
		!slices.Equal(c.Engine.Repositories, []string{"/own"}) {
		t.Errorf("options do not go before the environment: %v, %+v", err, c)
	}
	env["AIP_HTTP_PORT"] = "x"
	if _, err = Load(true, []string{"--data-dir=" + t.TempDir()}, lookup); err == nil ||
		!strings.Contains(err.Error(), "AIP_HTTP_PORT") {
		t.Errorf("a port that is none: %v", err)
	}
	c, err = Load(false, []string{"--data-dir=" + t.TempDir()}, none)
	if err != nil || c.Listen.VertexAI.On || !c.Listen.HTTP.On {
		t.Errorf("without the environment: %v", err)
	}
}

func TestSageMakerEnvironment_H090_G015(t *testing.T) {
	env := map[string]string{"SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "m", "SAGEMAKER_TRITON_INFERENCE_TYPE": "generate",
		"SAGEMAKER_TRITON_PING_MODE": "live"}
	lookup := func(k string) (string, bool) { v, ok := env[k]; return v, ok }
	args := []string{"--data-dir=" + t.TempDir(), "--allow-sagemaker=true"}
	c, err := Load(true, args, lookup)
	if err != nil || c.SageMaker.Model != "m" || c.SageMaker.Kind != "generate" || !c.SageMaker.PingLive {
		t.Errorf("the environment gives %+v, %v", c.SageMaker, err)
	}
	env["SAGEMAKER_TRITON_INFERENCE_TYPE"] = "chat"
	if _, err = Load(true, args, lookup); err == nil ||
		!strings.Contains(err.Error(), "SAGEMAKER_TRITON_INFERENCE_TYPE") {
		t.Errorf("an unknown type: %v", err)
	}
}

func TestSageMakerSafePorts_H058(t *testing.T) {
	ports := []string{"--data-dir=" + t.TempDir(), "--allow-sagemaker=1", "--sagemaker-safe-port-range=8000-8010"}
	if _, err := Load(false, ports, none); err != nil {
		t.Errorf("the default ports are inside: %v", err)
	}
	if _, err := Load(false, append(ports, "--grpc-port=8011"), none); err == nil ||
		!strings.Contains(err.Error(), "--grpc-port: 8011 is outside of --sagemaker-safe-port-range=8000-8010") {
		t.Errorf("a port outside: %v", err)
	}
}

// The SageMaker service runs in addition to the other services, with the same access checks.
