package affinity

import (
	"slices"
	"strings"
	"testing"
)

func TestSettings_C065(t *testing.T) {
	for _, tt := range []struct {
		name, key, value, want, err string
	}{
		{name: "C065 a range, as Triton has it", key: "cpu-cores", value: "0-3", want: "cpu-cores=0-3"},
		{name: "C065 ranges and single cores", key: "cpu-cores", value: "8,0-2,1-3", want: "cpu-cores=0-3,8"},
		{name: "C065 a node", key: "numa-node", value: "1", want: "numa-node=1"},
		{name: "C065 no core", key: "cpu-cores", value: "", err: `cpu-cores: "" is not a number from 0`},
		{name: "C065 a word", key: "cpu-cores", value: "0-x", err: `"x" is not a number from 0`},
		{name: "C065 backwards", key: "cpu-cores", value: "3-1", err: `"3-1" ends before it begins`},
		{name: "C065 more than any machine has", key: "cpu-cores", value: "0-99999999999",
			err: "is not a number from 0 to 8191"},
		{name: "C065 several nodes", key: "numa-node", value: "0-1", err: `numa-node: "0-1" is not a number`},
		{name: "C065 a setting that Triton has not", key: "cores", value: "1",
			err: "Unsupported host policy setting 'cores' is specified, supported settings are 'numa-node', " +
				"'cpu-cores'"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p Policy
			err := p.Set(tt.key, tt.value)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) || err == nil &&
				p.String() != tt.want {
				t.Errorf("Set(%q, %q) = %v and the policy %q; want %q, %q", tt.key, tt.value, err, p, tt.want, tt.err)
			}
		})
	}
}

func FuzzList(f *testing.F) {
	f.Add("0-3,8")
	f.Add("1")
	f.Fuzz(func(t *testing.T, s string) {
		list, err := parseList(s)
		if err != nil {
			return
		}
		again, err := parseList(Format(list))
		if err != nil || !slices.Equal(list, again) {
			t.Errorf("%q is %v, and written and read again %v, %v", s, list, again, err)
		}
	})
}
