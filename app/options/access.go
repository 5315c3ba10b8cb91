package options

import (
	"errors"
	"fmt"
)

// CheckAccess refuses addresses that other machines can reach when nothing guards them: there is no token in the
// environment, and none in the store (tokens).
func (c *Config) CheckAccess(tokens bool) error {
	var errs []error
	for _, e := range c.Listen.All() {
		switch {
		case !e.Reachable():
		case e == &c.Listen.UI:
			errs = append(errs, fmt.Errorf("--ui-address: %s can be reached from other machines, and the GUI answers "+
				"on this machine only; use 127.0.0.1 and a tunnel such as ssh -L %d:127.0.0.1:%d", e.Address, e.Port,
				e.Port))
		case c.Access.Token == "" && !tokens && !c.Access.AllowAnonymous:
			name := e.Name
			if e == &c.Listen.SageMaker || e == &c.Listen.VertexAI {
				name = c.Listen.HTTP.Name
			}
			errs = append(errs, fmt.Errorf("--%s-address: %s can be reached from other machines and nothing guards "+
				"it; make a token with nereid token create, or set one in the environment variable NEREID_TOKEN, or "+
				"say --allow-anonymous to serve everybody", name, e.Address))
		}
	}
	return errors.Join(errs...)
}
