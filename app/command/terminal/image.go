package terminal

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/gif" // decoders
	_ "image/jpeg"
	_ "image/png"
	"math"

	"nereid/engine/client"
	"nereid/engine/tensor"
)

// imageOptions say how an image becomes a tensor. Empty texts: from the input's type and shape.
type imageOptions struct {
	layout, scale string
	bgr           bool
}

// maxPixels bounds an image, whose header a file of a few bytes could have.
const maxPixels = 1 << 27

// place is where the pixels of an image are in a tensor.
type place struct {
	height, width, channels int
	channelsFirst           bool
}

// picture makes the tensor from an image file. The image is stretched to the size that the model takes.
func (in *input) picture(data []byte) (client.Tensor, error) {
	switch in.dt {
	case tensor.Uint8, tensor.FP16, tensor.BF16, tensor.FP32, tensor.FP64:
	default:
		return client.Tensor{}, errors.New("an image is for inputs of type UINT8, FP16, BF16, FP32, FP64 and BYTES")
	}
	conf, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err == nil && conf.Width*conf.Height > maxPixels {
		err = fmt.Errorf("%d × %d pixels are more than %d", conf.Width, conf.Height, maxPixels)
	}
	if err != nil {
		return client.Tensor{}, fmt.Errorf("the image: %w", err)
	}
	img, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return client.Tensor{}, fmt.Errorf("the image: %w", err)
	}
	model := in.model
	if in.shape != nil {
		model = in.shape
	}
	p, ok := findPlace(model, in.image.layout, conf.Height, conf.Width)
	if !ok {
		return client.Tensor{}, errors.New("the shape is not that of an image; give --shape and --layout")
	}
	natural := []int64{int64(p.height), int64(p.width), int64(p.channels)}
	if p.channelsFirst {
		natural = []int64{natural[2], natural[0], natural[1]}
	}
	return in.shaped(in.pixels(img, p), natural)
}

// findPlace finds height, width and channels in a shape. Dimensions that are not fixed are those of the image.
func findPlace(shape []int64, layout string, height, width int) (p place, ok bool) {
	size := func(d int64, natural int) int {
		if d > 0 {
			return int(d)
		}
		return natural
	}
	isChannels := func(d int64) bool { return d == 1 || d == 3 }
	switch n := len(shape); {
	case n >= 3:
		a, b, c := shape[n-3], shape[n-2], shape[n-1]
		switch {
		case (layout == "NHWC" || layout == "" && isChannels(c) && !isChannels(a)) && (isChannels(c) || c < 0):
			return place{size(a, height), size(b, width), size(c, 3), false}, true
		case layout != "NHWC" && (isChannels(a) || layout == "NCHW" && a < 0):
			return place{size(b, height), size(c, width), size(a, 3), true}, true
		}
	case n == 2 && shape[0] >= 8 && shape[1] >= 8:
		return place{int(shape[0]), int(shape[1]), 1, false}, true
	}
	if n := len(shape); n == 1 || n == 2 {
		for _, channels := range []int64{1, 3} {
			side := int64(math.Sqrt(float64(shape[n-1] / channels)))
			if side >= 8 && side*side*channels == shape[n-1] {
				return place{int(side), int(side), int(channels), false}, true
			}
		}
	}
	return p, false
}

// pixels returns the elements of an image. Each pixel is the mean of those that it covers in the image, on white.
func (in *input) pixels(img image.Image, p place) []byte {
	scale := in.image.scale
	if scale == "" {
		switch {
		case in.dt == tensor.Uint8:
			scale = "none"
		case p.channels == 3 && p.height >= 160:
			scale = "imagenet"
		default:
			scale = "unit"
		}
	}
	count := p.height * p.width
	values := make([]float64, count*p.channels)
	for i := range count {
		rgb := mean(img, i/p.width, i%p.width, p)
		if p.channels == 1 {
			values[i] = scaled(math.Round(0.299*rgb[0]+0.587*rgb[1]+0.114*rgb[2]), 0, scale)
			continue
		}
		for c := range 3 {
			from, at := c, i*3+c
			if in.image.bgr {
				from = 2 - c
			}
			if p.channelsFirst {
				at = c*count + i
			}
			values[at] = scaled(rgb[from], from, scale)
		}
	}
	out := make([]byte, 0, len(values)*in.dt.Size())
	for _, v := range values {
		if in.dt == tensor.Uint8 {
			out = append(out, uint8(max(0, min(255, math.Round(v)))))
		} else {
			out = appendFloat(out, in.dt, v)
		}
	}
	return out
}

// mean returns red, green and blue, 0 to 255, of the part of an image that a pixel of p covers.
func mean(img image.Image, y, x int, p place) (rgb [3]float64) {
	b := img.Bounds()
	top, left := b.Min.Y+y*b.Dy()/p.height, b.Min.X+x*b.Dx()/p.width
	bottom, right := b.Min.Y+(y+1)*b.Dy()/p.height, b.Min.X+(x+1)*b.Dx()/p.width
	bottom, right = max(bottom, top+1), max(right, left+1)
	for v := top; v < bottom; v++ {
		for u := left; u < right; u++ {
			c, ok := color.NRGBAModel.Convert(img.At(u, v)).(color.NRGBA)
			if !ok {
				continue
			}
			a := float64(c.A) / 255
			for i, s := range []uint8{c.R, c.G, c.B} {
				rgb[i] += float64(s)*a + 255*(1-a)
			}
		}
	}
	n := float64((bottom - top) * (right - left))
	for i := range rgb {
		rgb[i] = math.Round(rgb[i] / n)
	}
	return rgb
}

// scaled converts a value of 0 to 255.
func scaled(v float64, channel int, scale string) float64 {
	switch scale {
	case "unit":
		return v / 255
	case "signed":
		return v/127.5 - 1
	case "imagenet":
		return (v/255 - [3]float64{0.485, 0.456, 0.406}[channel]) / [3]float64{0.229, 0.224, 0.225}[channel]
	}
	return v
}
