package device

import (
	"os"
	"strconv"
	"strings"
)

// CUDAName returns the name of a GPU for CUDA_VISIBLE_DEVICES of another process. number is the GPU's number in this
// process, whose own CUDA_VISIBLE_DEVICES may number GPUs in another way.
func CUDAName(number int) string {
	if list, ok := os.LookupEnv("CUDA_VISIBLE_DEVICES"); ok {
		if names := strings.Split(list, ","); number < len(names) {
			return strings.TrimSpace(names[number])
		}
	}
	return strconv.Itoa(number)
}
