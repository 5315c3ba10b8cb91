// Package pyrt holds the Python side of the Python backend: the process that runs a model (nereid_worker.py) and the
// triton_python_backend_utils that models import. Pure Python 3.8 or newer; numpy is all that it needs.
package pyrt

import "embed"

// Files are the modules, to be written into one folder that Python finds them in. Main is what Python runs.
//
//go:embed *.py backends/*/model.py
var Files embed.FS

// Backends is the folder of the python-based backends that come with us, one folder each: what runs the files of a framework
// by its Python package.
const Backends = "backends"

// Main is the module to run; it speaks the protocol of engine/worker on descriptors 3, 4 and 5.
const Main = "nereid_worker.py"
