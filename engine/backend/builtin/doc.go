// Package builtin holds the backends that need no framework: identity, repeat, square, add_sub and three for
// sequences, with Triton's tensor names.
//
//   - identity gives each INPUT<i> back as OUTPUT<i> without copying it.
//   - repeat (decoupled) answers IN[i] as OUT with IDX i, DELAY[i] milliseconds after the answer before; the instance is
//     busy for WAIT milliseconds.
//   - square (decoupled) answers IN of n with n times OUT of n.
//   - add_sub gives INPUT0+INPUT1 as OUTPUT0 and INPUT0-INPUT1 as OUTPUT1, in every numeric type; integers wrap.
//   - sequence and dyna_sequence answer INPUT with the sum of the sequence's so far, kept by the row of the batch or by the
//     correlation ID; iterative_sequence counts INPUT down to 0, one step in each execution.
//
// repeat and square run one goroutine per request; the instance's Close waits for them.
package builtin
