// Package agent is the contract of repository agents, which look at a model's files before it is loaded and may put
// others in their place: verify, decrypt, convert. A configuration names them in model_repository_agents, in the order
// in which they run. The package has the checksum agent; All lists what there is. It starts no goroutine.
//
// An agent of one's own is a Go type with the two methods of Agent, in engine.Options.Agents.
package agent
