// Package pyrt holds the Python side of the Python backend: the process that runs a model (nereid_worker.py) and the
// triton_python_backend_utils that models import. Pure Python 3.8 or newer; numpy is all that it needs.
package pyrt

import "embed"

// Files are the modules, to be written into one folder that Python finds them in.
//
//go:embed *.py
var Files embed.FS

// Main is the module to run; it speaks the protocol of engine/worker on descriptors 3, 4 and 5.
const Main = "nereid_worker.py"

// Backends are the python-based backends that come with us, as <name>/model.py below BackendsFolder: what runs the
// files of a framework by its Python package. Their modules import those of Files.
//
//go:embed backends/*/model.py
var Backends embed.FS

// BackendsFolder is where Backends has its folders.
const BackendsFolder = "backends"
