// What decoupled backends report about single responses. The server measures responses itself, and takes nothing from
// these reports.

#include <stdlib.h>

#include "object.h"

struct TRITONBACKEND_ModelInstanceResponseStatistics {
  uint64_t start, output_start, end;
};

typedef struct TRITONBACKEND_ModelInstanceResponseStatistics statistics;

error TRITONBACKEND_ModelInstanceResponseStatisticsNew(statistics **s) {
  *s = must_have(calloc(1, sizeof **s));
  return NULL;
}

error TRITONBACKEND_ModelInstanceResponseStatisticsDelete(statistics *s) {
  free(s);
  return NULL;
}

error TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance(statistics *s, TRITONBACKEND_ModelInstance *i) {
  return NULL;
}

error TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory(
    statistics *s, TRITONBACKEND_ResponseFactory *f) {
  return NULL;
}

error TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart(statistics *s, uint64_t time) {
  s->start = time;
  return NULL;
}

error TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart(statistics *s, uint64_t time) {
  s->output_start = time;
  return NULL;
}

error TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd(statistics *s, uint64_t time) {
  s->end = time;
  return NULL;
}

// The error stays the backend's.
error TRITONBACKEND_ModelInstanceResponseStatisticsSetError(statistics *s, error failure) { return NULL; }

error TRITONBACKEND_ModelInstanceReportResponseStatistics(statistics *s) {
  if (s->start > s->end)
    return new_error(CODE_INVALID_ARG, "response statistics: the response ends before it starts");
  return NULL;
}
