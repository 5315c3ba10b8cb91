package modelconfig_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"nereid/engine/modelconfig"
)

func TestFormat(t *testing.T) {
	const want = `name: "m"
backend: "onnxruntime"
max_batch_size: 8
input [
  {
    name: "x"
    data_type: TYPE_FP32
    dims: [ 3, -1, -1 ]
  },
  {
    name: "q\"\\\n\001é"
    reshape {
      shape: [ 1, 2 ]
    }
  }
]
version_policy {
  all { }
}
instance_group [
  {
    kind: KIND_CPU
    count: 2
  }
]
dynamic_batching { }
parameters {
  key: "a"
  value {
    string_value: "1"
  }
}
parameters {
  key: "b"
  value { }
}
`
	cfg := parse(t, want)
	if got := modelconfig.Format(cfg); got != want {
		t.Errorf("Format =\n%s\nwant\n%s", got, want)
	}
}

func TestFormatReadsBack(t *testing.T) {
	for name, text := range good(t) {
		cfg := parse(t, text)
		modelconfig.Normalize(cfg, modelconfig.NormalizeOptions{})
		if again := parse(t, modelconfig.Format(cfg)); !proto.Equal(cfg, again) {
			t.Errorf("%s: Format reads back as %v, want %v", name, again, cfg)
		}
	}
}
