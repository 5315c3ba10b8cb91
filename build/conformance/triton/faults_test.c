// A backend that fails in the way that the request's first value says.

#include <pthread.h>
#include <stdio.h>

#include "triton.h"

static void *crash(void *unused) {
  abort();
  return unused;
}

Error *TRITONBACKEND_ModelFinalize(Model *m) { return TRITONSERVER_ErrorNew(1, "the model does not finalize"); }

Error *TRITONBACKEND_Finalize(Backend *b) {
  fputs("the backend is finalized\n", stderr);
  return NULL;
}

Error *TRITONBACKEND_ModelInstanceExecute(Instance *i, Request **requests, uint32_t count) {
  int cause = (int)first_value(requests[0]);
  switch (cause) {
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
    if (cause == 5) {
      Error *again = TRITONBACKEND_RequestRelease(requests[k], ALL);
      if (again != NULL) TRITONSERVER_LogMessage(1, "faults_test.c", 1, "the second release is refused");
      TRITONSERVER_ErrorDelete(again);
    }
  }
  return cause == 4 ? TRITONSERVER_ErrorNew(1, "an error after the release") : NULL;
}
