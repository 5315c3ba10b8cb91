//go:build !linux

package arena

func (m *Mapping) unmap()           {}
func (m *Mapping) punch(_, _ int64) {}
