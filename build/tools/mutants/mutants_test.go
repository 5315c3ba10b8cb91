package main

import "testing"

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     int
		wantErr  bool
	}{
		{name: "comments and empty lines", in: "# none\n\n"},
		{name: "two tests for one mutant", in: "mutant_a | ./x | TestA | swaps\nmutant_a | ./y | TestB | swaps\n", want: 2},
		{name: "a field is missing", in: "mutant_a | ./x | TestA", wantErr: true},
		{name: "a tag that is no mutant", in: "race | ./x | TestA | what", wantErr: true},
		{name: "a bad regexp", in: "mutant_a | ./x | Test( | what", wantErr: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse(tt.in)
			if len(got) != tt.want || (err != nil) != tt.wantErr {
				t.Errorf("parse(%q) = %v, %v; want %d mutants, error %v", tt.in, got, err, tt.want, tt.wantErr)
			}
		})
	}
}

func TestCountEvents(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     result
	}{
		{name: "a pass and a failure", in: `{"Action":"pass","Test":"TestA"}
{"Action":"fail","Test":"TestB"}
{"Action":"fail"}`, want: result{passed: 1, failed: 1}},
		{name: "a package that dies", in: `{"Action":"fail"}`, want: result{failed: 1}},
		{name: "a mutant that does not compile", in: `{"Action":"build-fail"}
{"Action":"fail","FailedBuild":"x"}`, want: result{broken: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := countEvents([]byte(tt.in)); got != tt.want {
				t.Errorf("countEvents = %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestCompareTags(t *testing.T) {
	list := []mutant{{tag: "mutant_a"}}
	if err := compareTags(list, map[string]bool{"mutant_a": true}); err != nil {
		t.Errorf("compareTags of the same sets = %v", err)
	}
	if compareTags(list, map[string]bool{}) == nil {
		t.Error("compareTags lets a mutant pass that no file has")
	}
	if compareTags(nil, map[string]bool{"mutant_b": true}) == nil {
		t.Error("compareTags lets a mutant pass that the manifest lacks")
	}
}
