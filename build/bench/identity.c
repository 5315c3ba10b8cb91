// A backend library for measurements: OUTPUT0 is INPUT0.

#include "triton.h"

Error *TRITONBACKEND_ModelInstanceExecute(Instance *i, Request **requests, uint32_t count) {
  for (uint32_t k = 0; k < count; k++) {
    Response *r;
    TRITONBACKEND_ResponseNew(&r, requests[k]);
    copy(requests[k], r, "OUTPUT0");
    TRITONBACKEND_ResponseSend(r, FINAL, NULL);
    TRITONBACKEND_RequestRelease(requests[k], ALL);
  }
  return NULL;
}
