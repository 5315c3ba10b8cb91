// A backend that answers without outputs. The first value of a request says how: 0 by a final response, 1 by the final
// flag alone, 2 by a response, and then the flag.

#include "triton.h"

Error *TRITONBACKEND_ModelInstanceExecute(Instance *i, Request **requests, uint32_t count) {
  for (uint32_t k = 0; k < count; k++) {
    Input *in;
    Response *r;
    Factory *f;
    const void *data;
    uint64_t size;
    int64_t id;
    int memory;
    TRITONBACKEND_RequestInputByIndex(requests[k], 0, &in);
    TRITONBACKEND_InputBuffer(in, 0, &data, &size, &memory, &id);
    int how = (int)*(const float *)data;
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
