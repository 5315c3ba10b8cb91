package device

import (
	"os"
	"strconv"
	"strings"
)

// CUDAName is how CUDA_VISIBLE_DEVICES of another process names the GPU that has a number here: what this process's own list,
// where it has one, has in that place.
func CUDAName(number int) string {
	if list, ok := os.LookupEnv("CUDA_VISIBLE_DEVICES"); ok {
		if names := strings.Split(list, ","); number < len(names) {
			return strings.TrimSpace(names[number])
		}
	}
	return strconv.Itoa(number)
}
