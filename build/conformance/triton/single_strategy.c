// A batching strategy: each batch has one request.

#include "triton.h"

Error *TRITONBACKEND_ModelBatcherInitialize(void **batcher, Model *m) { return NULL; }

Error *TRITONBACKEND_ModelBatcherFinalize(void *batcher) { return NULL; }

Error *TRITONBACKEND_ModelBatchInitialize(const void *batcher, bool **has) {
  *has = calloc(1, sizeof **has);
  return NULL;
}

#ifndef INCOMPLETE
Error *TRITONBACKEND_ModelBatchFinalize(bool *has) {
  free(has);
  return NULL;
}
#endif

Error *TRITONBACKEND_ModelBatchIncludeRequest(Request *q, bool *has, bool *included) {
  *included = !*has;
  *has = true;
  return NULL;
}
