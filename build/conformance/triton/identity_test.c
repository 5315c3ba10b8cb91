// The smallest backend: each output is the input. Each response says how many requests were in its batch.

#include "triton.h"

Error *TRITONBACKEND_ModelInstanceExecute(Instance *i, Request **requests, uint32_t count) {
  for (uint32_t k = 0; k < count; k++) {
    Response *r;
    TRITONBACKEND_ResponseNew(&r, requests[k]);
    copy(requests[k], r, "OUT");
    TRITONBACKEND_ResponseSetIntParameter(r, "batch", count);
    TRITONBACKEND_ResponseSend(r, FINAL, NULL);
    TRITONBACKEND_RequestRelease(requests[k], ALL);
  }
  return NULL;
}
