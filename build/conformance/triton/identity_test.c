// The smallest backend: each output is the input. Each response has the parameters of its request, and says how many
// requests were in its batch.

#include "triton.h"

static void echo(Request *q, Response *r) {
  uint32_t count;
  TRITONBACKEND_RequestParameterCount(q, &count);
  for (uint32_t i = 0; i < count; i++) {
    const char *key;
    const void *value;
    int type;
    TRITONBACKEND_RequestParameter(q, i, &key, &type, &value);
    if (type == STRING) TRITONBACKEND_ResponseSetStringParameter(r, key, value);
    if (type == INT) TRITONBACKEND_ResponseSetIntParameter(r, key, *(const int64_t *)value);
    if (type == BOOL) TRITONBACKEND_ResponseSetBoolParameter(r, key, *(const bool *)value);
    if (type == DOUBLE) TRITONBACKEND_ResponseSetDoubleParameter(r, key, *(const double *)value);
  }
}

Error *TRITONBACKEND_ModelInstanceExecute(Instance *i, Request **requests, uint32_t count) {
  for (uint32_t k = 0; k < count; k++) {
    Response *r;
    TRITONBACKEND_ResponseNew(&r, requests[k]);
    copy(requests[k], r, "OUT");
    echo(requests[k], r);
    TRITONBACKEND_ResponseSetIntParameter(r, "batch", count);
    TRITONBACKEND_ResponseSend(r, FINAL, NULL);
    TRITONBACKEND_RequestRelease(requests[k], ALL);
  }
  return NULL;
}
