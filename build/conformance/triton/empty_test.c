// A backend that answers without outputs. The first value of a request says how: 0 by a final response, 1 by the final
// flag alone, 2 by a response, and then the flag.

#include "triton.h"

Error *TRITONBACKEND_ModelInstanceExecute(Instance *i, Request **requests, uint32_t count) {
  for (uint32_t k = 0; k < count; k++) {
    Response *r;
    Factory *f;
    int how = (int)first_value(requests[k]);
    if (how != 1) {
      TRITONBACKEND_ResponseNew(&r, requests[k]);
      TRITONBACKEND_ResponseSend(r, how == 0 ? FINAL : 0, NULL);
    }
    if (how != 0) {
      TRITONBACKEND_ResponseFactoryNew(&f, requests[k]);
      TRITONBACKEND_ResponseFactorySendFlags(f, FINAL);
      TRITONBACKEND_ResponseFactoryDelete(f);
    }
    TRITONBACKEND_RequestRelease(requests[k], ALL);
  }
  return NULL;
}
