// The functions of batching strategies.

#include "strategy.h"

#include <dlfcn.h>

#include "shim.h"

bool nt_find_strategy(void *library, nt_strategy *s) {
  *(void **)&s->initialize = dlsym(library, "TRITONBACKEND_ModelBatcherInitialize");
  *(void **)&s->finalize = dlsym(library, "TRITONBACKEND_ModelBatcherFinalize");
  *(void **)&s->begin = dlsym(library, "TRITONBACKEND_ModelBatchInitialize");
  *(void **)&s->include = dlsym(library, "TRITONBACKEND_ModelBatchIncludeRequest");
  *(void **)&s->end = dlsym(library, "TRITONBACKEND_ModelBatchFinalize");
  return s->initialize != NULL && s->finalize != NULL && s->begin != NULL && s->include != NULL && s->end != NULL;
}

error nt_strategy_initialize(nt_strategy *s, TRITONBACKEND_Model *m) { return s->initialize(&s->batcher, m); }

error nt_strategy_finalize(nt_strategy *s) { return s->finalize(s->batcher); }

error nt_strategy_begin(nt_strategy *s) {
  s->open = true;
  s->batch = NULL;
  return s->begin(s->batcher, &s->batch);
}

// As in Triton, the library is not asked to end a batch for which it keeps nothing.
error nt_strategy_end(nt_strategy *s) {
  s->open = false;
  void *batch = s->batch;
  s->batch = NULL;
  return batch == NULL ? NULL : s->end(batch);
}

error nt_strategy_include(nt_strategy *s, const char *record, uint64_t size, bool *included) {
  TRITONBACKEND_Request *q = nt_request(record, size);
  *included = false;
  error e = s->include(q, s->batch, included);
  release_request(q);
  release_request(q);
  return e;
}
