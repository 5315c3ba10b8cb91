// What backends report about requests, executions and responses. Go gets the reports as events, in order with responses.

#include <stdlib.h>

#include "object.h"

static void push_report(enum report_kind what, uint64_t handle, uint64_t n, uint64_t start, uint64_t input_end,
    uint64_t output_start, uint64_t end) {
  report *p = must_have(calloc(1, sizeof *p));
  *p = (report){{.kind = EVENT_REPORT}, what, handle, n, {start, input_end, output_start, end}};
  push_event(&p->reported);
}

error TRITONBACKEND_ModelInstanceReportStatistics(TRITONBACKEND_ModelInstance *i, TRITONBACKEND_Request *q, bool ok,
    uint64_t exec_start, uint64_t compute_start, uint64_t compute_end, uint64_t exec_end) {
  NEED(q, "request");
  push_report(ok ? REPORT_SUCCEEDED : REPORT_FAILED, q->handle, 0, exec_start, compute_start, compute_end, exec_end);
  return NULL;
}

error TRITONBACKEND_ModelInstanceReportBatchStatistics(TRITONBACKEND_ModelInstance *i, uint64_t size,
    uint64_t exec_start, uint64_t compute_start, uint64_t compute_end, uint64_t exec_end) {
  push_report(REPORT_EXECUTED, 0, size, exec_start, compute_start, compute_end, exec_end);
  return NULL;
}

struct TRITONBACKEND_ModelInstanceResponseStatistics {
  TRITONBACKEND_ResponseFactory *factory;
  uint64_t start, output_start, end;
  error failure;
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

// A process has one instance.
error TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance(statistics *s, TRITONBACKEND_ModelInstance *i) {
  return NULL;
}

error TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory(
    statistics *s, TRITONBACKEND_ResponseFactory *f) {
  s->factory = f;
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
error TRITONBACKEND_ModelInstanceResponseStatisticsSetError(statistics *s, error failure) {
  s->failure = failure;
  return NULL;
}

error TRITONBACKEND_ModelInstanceReportResponseStatistics(statistics *s) {
  NEED(s->factory, "response factory of the statistics");
  uint64_t place = atomic_fetch_add(&s->factory->request->reported, 1);
  enum report_kind what = s->output_start > 0 ? REPORT_RESPONSE : REPORT_RESPONSE_EMPTY;
  if (s->failure != NULL)
    what = s->failure->code == CODE_CANCELLED ? REPORT_RESPONSE_CANCELLED : REPORT_RESPONSE_FAILED;
  bool outputs = s->output_start > 0 && what != REPORT_RESPONSE_CANCELLED;
  uint64_t output_start = outputs ? s->output_start : s->end;
  if (s->start > output_start)
    return new_error(CODE_INVALID_ARG, outputs ? "Response start cannot happen after compute output start"
                                               : "Response start cannot happen after response end");
  if (output_start > s->end)
    return new_error(CODE_INVALID_ARG, "Compute output start cannot happen after response end");
  push_report(what, s->factory->request->handle, place, s->start, s->start, output_start, s->end);
  return NULL;
}
