// A backend that reports 1,100 activities of each traced request, and answers with the input.

#include "triton.h"

typedef struct TRITONSERVER_InferenceTrace Trace;

Error *TRITONBACKEND_RequestTrace(Request *, Trace **);
Error *TRITONSERVER_InferenceTraceReportActivity(Trace *, uint64_t time, const char *name);

enum { ACTIVITIES = 1100 };

Error *TRITONBACKEND_ModelInstanceExecute(Instance *i, Request **requests, uint32_t count) {
  for (uint32_t k = 0; k < count; k++) {
    Trace *t;
    Response *r;
    TRITONBACKEND_RequestTrace(requests[k], &t);
    for (int n = 0; t != NULL && n < ACTIVITIES; n++) TRITONSERVER_InferenceTraceReportActivity(t, 1000 + n, "tick");
    TRITONBACKEND_ResponseNew(&r, requests[k]);
    copy(requests[k], r, "OUTPUT0");
    TRITONBACKEND_ResponseSend(r, FINAL, NULL);
    TRITONBACKEND_RequestRelease(requests[k], ALL);
  }
  return NULL;
}
