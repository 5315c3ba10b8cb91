package api

// Inspection answers GET /api/models/{name}/inspection: what a model file says about itself, and what runs on this
// machine showed. The command nereid inspect --json prints it too.
type Inspection struct {
	// File is the path of the model file.
	File      string `json:"file"`
	FileBytes int64  `json:"fileBytes"`
	// IRVersion is that of the file's format, and Producer the program that wrote it.
	IRVersion int64         `json:"irVersion"`
	Producer  string        `json:"producer"`
	Opsets    List[Opset]   `json:"opsets"`
	Weights   List[Weights] `json:"weights"`
	// Operators are those of the file, with its subgraphs and functions; the most frequent first.
	Operators List[OperatorCount] `json:"operators"`
	// Unsupported are operators that ONNX Runtime does not have, so that the model needs a library of operators.
	Unsupported List[string] `json:"unsupported"`
	// LoadError says why the model does not load; empty if it does, or if Unsupported says why.
	LoadError string `json:"loadError"`
	// Dangers are operators that may end the process because of a request. The model then runs in a separate process.
	Dangers List[Danger]   `json:"dangers"`
	Inputs  List[FilePort] `json:"inputs"`
	Outputs List[FilePort] `json:"outputs"`
	// Run is null if the model was not run.
	Run *InspectedRun `json:"run"`
}

// Opset is the version of an operator set. Domain is empty for ONNX's own.
type Opset struct {
	Domain  string `json:"domain"`
	Version int64  `json:"version"`
}

// Weights are the constants of a graph of one data type.
type Weights struct {
	DataType string `json:"dataType"`
	Tensors  int64  `json:"tensors"`
	Elements int64  `json:"elements"`
	Bytes    int64  `json:"bytes"`
}

// OperatorCount says how often a file has an operator.
type OperatorCount struct {
	Op    string `json:"op"`
	Count int    `json:"count"`
}

// Danger is an operator that may end the process of the model.
type Danger struct {
	Op  string `json:"op"`
	Why string `json:"why"`
}

// FilePort is an input or output of a model file. A dimension of -1 is open; DimNames has the file's names.
type FilePort struct {
	Name     string       `json:"name"`
	DataType string       `json:"dataType"`
	Shape    List[int64]  `json:"shape"`
	DimNames List[string] `json:"dimNames"`
}

// InspectedRun is what runs with random inputs showed, with a thread for each core and no configuration.
type InspectedRun struct {
	// Shapes are those of the inputs.
	Shapes   List[List[int64]] `json:"shapes"`
	Runs     int               `json:"runs"`
	MedianUs float64           `json:"medianUs"`
	BestUs   float64           `json:"bestUs"`
	WorstUs  float64           `json:"worstUs"`
	// MemoryBytes is what the session takes, with its weights.
	MemoryBytes int64 `json:"memoryBytes"`
	// FLOPs of the matrix products and convolutions of one run; 0: there are none.
	FLOPs int64 `json:"flops"`
	// Providers are the nodes by execution provider.
	Providers map[string]int `json:"providers"`
	// ProviderOperators are the operators of these nodes. A provider may run a part of the graph as one node.
	ProviderOperators map[string]List[OperatorCount] `json:"providerOperators"`
	// Operators and Nodes are what ran, after optimizations; those that took longest first. Nodes are at most 50.
	Operators List[OperatorTime] `json:"operators"`
	Nodes     List[NodeTime]     `json:"nodes"`
	NodeCount int                `json:"nodeCount"`
}

// OperatorTime is the time of all nodes of one operator in one run. Share is of the sum of all nodes, 0 to 1.
type OperatorTime struct {
	Op    string  `json:"op"`
	Count int     `json:"count"`
	Us    float64 `json:"us"`
	Share float64 `json:"share"`
	FLOPs int64   `json:"flops"`
}

// NodeTime is the time of a node in one run.
type NodeTime struct {
	Name    string            `json:"name"`
	Op      string            `json:"op"`
	Us      float64           `json:"us"`
	Share   float64           `json:"share"`
	FLOPs   int64             `json:"flops"`
	Outputs List[List[int64]] `json:"outputs"`
}

// Graph answers GET /api/models/{name}/graph: the nodes of an ONNX file, without those of inner graphs.
type Graph struct {
	// Nodes are empty if there are more than the page draws; Count is how many there are.
	Nodes   List[GraphNode] `json:"nodes"`
	Count   int             `json:"count"`
	Inputs  List[string]    `json:"inputs"`
	Outputs List[string]    `json:"outputs"`
	// Weights are the constants that nodes take by name, each as its data type and shape.
	Weights map[string]string `json:"weights"`
}

// GraphNode is a node of an ONNX file. Inputs and outputs are names of tensors; "" is one that is left out.
type GraphNode struct {
	Name       string               `json:"name"`
	Op         string               `json:"op"`
	Domain     string               `json:"domain"`
	Inputs     List[string]         `json:"inputs"`
	Outputs    List[string]         `json:"outputs"`
	Attributes List[GraphAttribute] `json:"attributes"`
}

// GraphAttribute is an attribute of a node, as a text that leaves out what is long.
type GraphAttribute struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}
