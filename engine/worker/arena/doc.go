// Package arena is the memory that the server shares with a model's process: a sealed memfd that is mapped once, for
// its largest possible size, and grows on demand.
//
// There are two for each process. The server allocates in the down arena and the process in the up arena; each side
// reads the other's. PROTOCOL.md in package frames describes the layout ("Arenas"). A Mapping is either side's view
// of the memory; an Arena allocates slots in it. Nothing here starts a goroutine.
package arena
