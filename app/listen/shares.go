package listen

// Shares are the most connections of an endpoint. Each connection takes a file descriptor of the process. So the
// clients of one endpoint cannot shut out those of the others, and some descriptors are left for models and for files.
type Shares struct {
	Inference int // each of HTTP and gRPC
	Plain     int // each of the metrics and the GUI
}

// SharesOf divides the descriptors that the process may have. 0: there is no limit. An eighth, and at least 96 or half
// of a few, are for models, their processes and files.
func SharesOf(files int) Shares {
	s := Shares{Inference: 65536, Plain: 1024}
	if files > 0 {
		rest := files - max(files/8, min(96, files/2))
		s.Inference = min(s.Inference, rest*3/8)
		s.Plain = min(s.Plain, rest/8)
	}
	return s
}

// OwnShares divides the descriptors of this process.
func OwnShares() Shares { return SharesOf(openFiles()) }
