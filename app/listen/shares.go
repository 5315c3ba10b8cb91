package listen

// Shares are the most connections of an endpoint. Each connection takes a file descriptor of the process. So the
// clients of one endpoint cannot shut out those of the others, and some descriptors are left for models and for files.
type Shares struct {
	Inference int // each of HTTP and gRPC
	Plain     int // each of the metrics and the GUI
}

// SharesOf divides the descriptors that the process may have. 0: there is no limit.
func SharesOf(files int) Shares {
	s := Shares{Inference: 65536, Plain: 1024}
	if files > 0 {
		s.Inference = min(s.Inference, max(16, files*3/8))
		s.Plain = min(s.Plain, max(16, files/16))
	}
	return s
}

// OwnShares divides the descriptors of this process.
func OwnShares() Shares { return SharesOf(openFiles()) }
