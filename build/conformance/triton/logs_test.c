// A backend that logs a verbose line with each execution. Its responses say which levels are logged: 1 information, 2
// warnings, 4 errors, 8 verbose lines.

#include "triton.h"

bool TRITONSERVER_LogIsEnabled(int level);

enum { LEVELS = 4, VERBOSE = 3 };

Error *TRITONBACKEND_ModelInstanceExecute(Instance *i, Request **requests, uint32_t count) {
  int64_t levels = 0;
  for (int level = 0; level < LEVELS; level++)
    if (TRITONSERVER_LogIsEnabled(level)) levels |= 1 << level;
  TRITONSERVER_LogMessage(VERBOSE, __FILE__, __LINE__, "a verbose line");
  for (uint32_t k = 0; k < count; k++) {
    Response *r;
    TRITONBACKEND_ResponseNew(&r, requests[k]);
    copy(requests[k], r, "OUT");
    TRITONBACKEND_ResponseSetIntParameter(r, "levels", levels);
    TRITONBACKEND_ResponseSend(r, FINAL, NULL);
    TRITONBACKEND_RequestRelease(requests[k], ALL);
  }
  return NULL;
}
