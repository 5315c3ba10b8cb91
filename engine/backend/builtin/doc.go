// Package builtin holds the backends that need no framework: identity, repeat, square and add_sub, with Triton's tensor
// names.
//
//   - identity gives each INPUT<i> back as OUTPUT<i> without copying it.
//   - repeat (decoupled) answers IN[i] as OUT with IDX i, DELAY[i] milliseconds after the answer before; the instance is
//     busy for WAIT milliseconds.
//   - square (decoupled) answers IN of n with n times OUT of n.
//   - add_sub gives INPUT0+INPUT1 as OUTPUT0 and INPUT0-INPUT1 as OUTPUT1, in every numeric type; integers wrap.
//
// repeat and square run one goroutine per request; the instance's Close waits for them.
package builtin
