package lifecycle

import (
	"os"
	"strings"

	"nereid/engine/modelconfig"
	"nereid/engine/repo"
	"nereid/engine/status"
)

// validate checks the completed configuration, and against a version's file if the backend could read it. The error
// holds all faults, each with its place, or, for a single one that has no place, its bare text.
func (m *Manager) validate(src *repo.Model, p *plan, pos *modelconfig.Positions, sig *modelconfig.Signature) error {
	faults := modelconfig.Validate(p.cfg, modelconfig.ValidateOptions{
		Positions: pos, Folder: src.Name, Signature: sig, Files: os.DirFS(src.Folder),
		GPUs: m.o.Machine.IDs(), MinCapability: m.o.Machine.MinCapability(),
	}).Errors()
	if len(faults) == 0 {
		return nil
	}
	var texts []string
	for _, f := range faults {
		text := f.Message
		if f.Line > 0 {
			text = f.Error()
		} else if f.Fix != "" {
			text += " (" + f.Fix + ")"
		}
		texts = append(texts, text)
	}
	return status.Errorf(status.InvalidArg, "%s", strings.Join(texts, "\n"))
}
