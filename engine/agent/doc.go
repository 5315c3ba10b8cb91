// Package agent defines repository agents, and contains the checksum agent. A repository agent reads the files of a
// model before it is loaded and may replace them: it verifies, decrypts or converts them. A model configuration names
// its agents in model_repository_agents, in the order in which they run. The package starts no goroutine.
//
// To add another agent, implement Agent and add it to engine.Options.Agents.
package agent
