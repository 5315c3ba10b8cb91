package lifecycle

import (
	"slices"
	"testing"

	"nereid/engine/modelconfig"
)

// The log says what of a configuration has no effect.
func TestSettingsWithoutEffect(t *testing.T) {
	const twice = "output 'y' again: give it its own name, or remove it"
	for _, tt := range []struct {
		name, config string
		want         []string
	}{
		{"A035 two outputs of one name", `output { name: "y" } output { name: "x" } output { name: "y" }`,
			[]string{twice}},
		{"A035 other names", `output { name: "y" } output { name: "x" }`, nil},
		{"C078 a cached ensemble",
			`response_cache { enable: true } ensemble_scheduling { step { model_name: "m" } }`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, _, faults := modelconfig.Parse("config.pbtxt", []byte(tt.config))
			if err := faults.Err(); err != nil {
				t.Fatal(err)
			}
			if got := withoutEffect(cfg, true, true); !slices.Equal(got, tt.want) {
				t.Errorf("without effect is %q, want %q", got, tt.want)
			}
		})
	}
}
