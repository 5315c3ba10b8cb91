// A backend that fails in the way that the request's first value says.

#include <pthread.h>

#include "triton.h"

static void *crash(void *unused) {
  abort();
  return unused;
}

Error *TRITONBACKEND_ModelInstanceExecute(Instance *i, Request **requests, uint32_t count) {
  Input *in;
  const void *data;
  uint64_t size;
  int64_t id;
  int memory;
  TRITONBACKEND_RequestInputByIndex(requests[0], 0, &in);
  TRITONBACKEND_InputBuffer(in, 0, &data, &size, &memory, &id);
  switch ((int)*(const float *)data) {
    case 1: return TRITONSERVER_ErrorNew(3, "the batch is refused");
    case 2: *(volatile int *)0 = 1; break;
    case 3: {
      pthread_t other;
      pthread_create(&other, NULL, crash, NULL);
      pthread_join(other, NULL);
    }
  }
  for (uint32_t k = 0; k < count; k++) {
    Response *r;
    Error *refused = TRITONSERVER_ErrorNew(4, "the request is refused");
    TRITONBACKEND_ResponseNew(&r, requests[k]);
    TRITONBACKEND_ResponseSend(r, FINAL, refused);
    TRITONSERVER_ErrorDelete(refused);
    TRITONBACKEND_RequestRelease(requests[k], ALL);
  }
  return NULL;
}
