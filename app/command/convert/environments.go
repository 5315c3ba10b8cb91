package convert

import (
	"strings"

	"nereid/engine/backend/python"
)

const (
	onnxPackages = "onnx==1.23.2\nonnxruntime==1.31.1\nnumpy\n"
	// onnxForPaddle has the newest onnx that paddle2onnx takes.
	onnxForPaddle = "onnx==1.17.0\nonnxruntime==1.31.1\nnumpy\n"
	pictures      = "pillow==13.0.0\n"
)

// environment returns the packages that converters of a kind need. They are no frameworks of a backend.
func environment(kind string) python.Framework {
	switch kind {
	case kindONNX:
		return python.Framework{Name: "convert-onnx", Title: "the converters of ONNX models", Module: "onnxsim",
			Requirements: "onnxconverter-common==1.16.0\nonnxsim==0.8.1\n" + pictures + onnxPackages}
	case kindCatBoost:
		return python.Framework{Name: "convert-catboost", Title: "CatBoost", Module: "catboost",
			Requirements: "catboost==1.2.10\n" + onnxPackages}
	case kindPaddle:
		return python.Framework{Name: "convert-paddle", Title: "PaddlePaddle and its converter", Module: "paddle2onnx",
			Requirements: "paddlepaddle==3.3.1\npaddle2onnx==2.1.0\n" + pictures + onnxForPaddle}
	case kindCaffe2:
		// PyTorch 1.10 is the last whose package has Caffe2, and Python 3.9 the newest that it is built for.
		return python.Framework{Name: "convert-caffe2", Title: "Caffe2 of PyTorch 1.10", Module: "caffe2",
			Pythons: []string{"3.9"}, Requirements: "torch==1.10.2\nonnx==1.12.0\nprotobuf==3.20.1\nnumpy==1.23.5\n" +
				"future==1.0.0\nsix\nonnxruntime==1.19.2\n" + "pillow==11.3.0\n"}
	case kindPyTorch:
		return pytorch()
	case kindTensorFlow:
		base, _ := python.FindFramework("tensorflow")
		return python.Framework{Name: "convert-tensorflow", Title: "the converters of TensorFlow", Module: "tf2onnx",
			Base: &base, Requirements: "tf2onnx==1.17.0\n" + pictures + onnxPackages}
	}
	return python.Framework{Name: "convert", Title: "the converters", Module: "skl2onnx",
		Requirements: "scikit-learn==1.9.1\nskl2onnx==1.20.0\nonnxmltools==1.16.0\nlightgbm==4.7.0\n" +
			"xgboost-cpu==3.2.0\n" + onnxPackages}
}

// pytorch is PyTorch as its backend has it, with torchvision and timm. torchvision must be built as PyTorch is, so it
// comes from the same index.
func pytorch() python.Framework {
	base, _ := python.FindFramework("pytorch")
	f := python.Framework{Name: "convert-pytorch", Title: "the converters of PyTorch", Module: "onnxscript",
		Base: &base, Requirements: "torchvision==0.29.2\ntimm==1.0.31\nonnxscript==0.7.2\n" +
			"cloudpickle==3.1.2\n" + pictures + onnxPackages}
	if base.CPU.Page != "" {
		f.CPU = python.CPUBuild{Page: strings.Replace(base.CPU.Page, "/torch/", "/torchvision/", 1),
			File: "torchvision-0.29.2%2Bcpu", Requirement: "torchvision==0.29.2+cpu", Index: base.CPU.Index}
	}
	return f
}
