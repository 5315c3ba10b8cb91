package options

import (
	"errors"
	"fmt"
)

// Tokens says which tokens a data folder has.
type Tokens struct {
	Any   bool
	Admin bool // one of them has the scope admin
}

// CheckAccess refuses addresses that other machines can reach when nothing guards them: there is no token in the
// environment, and none of the kind that is needed in the data folder. The GUI also needs TLS, because its users type
// a token that opens everything.
func (c *Config) CheckAccess(has Tokens) error {
	if c.Access.Token != "" {
		has = Tokens{Any: true, Admin: true}
	}
	var errs []error
	for _, e := range c.Listen.All() {
		switch {
		case !e.Reachable(), e == &c.Listen.Kiosk: // which everybody may use
		case e == &c.Listen.UI:
			if !e.TLS || !has.Admin {
				errs = append(errs, fmt.Errorf("--ui-address: %s can be reached from other machines, and there the "+
					"GUI needs TLS (--ui-use-ssl=true, --http-server-cert and --http-server-key) and a token with the "+
					"scope admin (nereid token create --name=me --scope=admin); or use 127.0.0.1 and a tunnel such as "+
					"ssh -L %d:127.0.0.1:%d", e.Address, e.Port, e.Port))
			}
		case !has.Any && !c.Access.AllowAnonymous:
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
