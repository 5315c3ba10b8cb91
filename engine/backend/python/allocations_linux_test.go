package python_test

import (
	"slices"
	"testing"
)

// Arrays of some megabytes that each execution makes take the memory of the execution before. If the C library gave it
// back in between, each page would be mapped and cleared again, which costs more than to fill it.
func TestMemoryOfArraysIsKeptBetweenExecutions(t *testing.T) {
	r := serve(t, nil, map[string]string{
		"m/config.pbtxt": config(""),
		"m/1/model.py": code(`
import resource
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
picture = np.ones((480, 640, 3), np.uint8)
for _ in range(10):
    pixels = picture.astype(np.float32)
    padded = np.pad(pixels, ((0, 0), (0, 32), (0, 0)), mode="edge")[None]
    del pixels, padded
y = np.array([resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before], np.float32)`, ""),
	}).ready()
	var faults float32
	for range 3 { // the first ones need the memory
		a := r.one(request("m", map[string][]float32{"IN": {0}}))
		if a.err != nil {
			t.Fatal(a.err)
		}
		faults = a.floats("OUT")[0]
	}
	if faults > 2000 { // of 18,500 pages
		t.Errorf("ten pairs of arrays take %g pages anew", faults)
	}
}

// Who sets limits of the C library, for the server or for the model, sets all of them.
func TestLimitsOfTheServersEnvironmentHold(t *testing.T) {
	t.Setenv("MALLOC_TRIM_THRESHOLD_", "131072")
	r := serve(t, nil, map[string]string{
		"m/config.pbtxt": config(""),
		"m/1/model.py": code(`
has = os.environ
y = np.array([int(has.get("MALLOC_TRIM_THRESHOLD_", 0)), int("MALLOC_MMAP_THRESHOLD_" in has)], np.float32)`, ""),
	}).ready()
	if a := r.one(request("m", map[string][]float32{"IN": {0}})); a.err != nil ||
		!slices.Equal(a.floats("OUT"), []float32{131072, 0}) {
		t.Errorf("%v, %v", a.err, a.floats("OUT"))
	}
}
