// Command strict checks manifests against the Go types of KServe and Kubernetes: strict <MANIFESTS.json.
//
// The input is a JSON list of objects. A field that the types lack, a field twice and a value of another type are errors.
// The output is the list of the kinds, such as "serving.kserve.io/v1beta1 InferenceService".
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/kserve/kserve/pkg/apis/serving/v1alpha1"
	"github.com/kserve/kserve/pkg/apis/serving/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	decoder "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
)

func main() {
	kinds, err := check()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(kinds)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func check() ([]string, error) {
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		scheme.AddToScheme, v1alpha1.AddToScheme, v1beta1.AddToScheme,
	} {
		if err := add(types); err != nil {
			return nil, err
		}
	}
	var manifests []json.RawMessage
	if err := json.NewDecoder(os.Stdin).Decode(&manifests); err != nil {
		return nil, err
	}
	strict := decoder.NewSerializerWithOptions(decoder.DefaultMetaFactory, types, types, decoder.SerializerOptions{Strict: true})
	var kinds []string
	for _, m := range manifests {
		_, kind, err := strict.Decode(m, nil, nil)
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, kind.GroupVersion().String()+" "+kind.Kind)
	}
	return kinds, nil
}
