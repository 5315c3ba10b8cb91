// Batching strategies: libraries that say which requests share a batch.
#ifndef NT_TRITON_STRATEGY_H
#define NT_TRITON_STRATEGY_H

#include "object.h"

// A library: its functions, what it keeps for the model (batcher), and what it keeps for a batch.
typedef struct {
  error (*initialize)(void **batcher, TRITONBACKEND_Model *);
  error (*finalize)(void *batcher);
  error (*begin)(const void *batcher, void **batch);
  error (*include)(TRITONBACKEND_Request *, void *batch, bool *included);
  error (*end)(void *batch);
  void *batcher, *batch;
  bool open;  // a batch is being formed
} nt_strategy;

// nt_find_strategy reports whether a library has all functions.
bool nt_find_strategy(void *library, nt_strategy *s);
error nt_strategy_initialize(nt_strategy *s, TRITONBACKEND_Model *m);
error nt_strategy_finalize(nt_strategy *s);
// nt_strategy_begin begins a batch, and nt_strategy_end ends it; without a batch, the latter does nothing.
error nt_strategy_begin(nt_strategy *s);
error nt_strategy_end(nt_strategy *s);
// nt_strategy_include asks for one request, from its record.
error nt_strategy_include(nt_strategy *s, const char *record, uint64_t size, bool *included);

#endif
