// Package builtin contains the backends that need no framework. Their tensor names are Triton's.
//
//   - identity returns each INPUT<i> as OUTPUT<i> without copying it.
//   - repeat (decoupled) returns IN[i] as OUT with IDX i, DELAY[i] milliseconds after the previous response. The
//     instance is busy for WAIT milliseconds.
//   - square (decoupled) responds n times with OUT = n to IN = n.
//   - add_sub returns INPUT0+INPUT1 as OUTPUT0 and INPUT0-INPUT1 as OUTPUT1, for every numeric type. Integers wrap.
//   - sequence and dyna_sequence return the sum of a sequence's INPUT values so far. sequence keeps one sum per row of
//     the batch, dyna_sequence one per correlation ID.
//   - iterative_sequence counts INPUT down to 0, one step per execution.
//
// repeat and square run one goroutine per request; the instance's Close waits for them.
package builtin
