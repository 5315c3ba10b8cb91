// A slow backend: an execution takes as many milliseconds as the first value of its requests says in sum. It reports
// statistics as decoupled and other backends do, memory, and an execution policy. Each output is the input.
//
// It reports an input phase of 1 ms and an output phase of 2 ms, and executions of five requests. The second value of a
// request says what is wrong: HONEST, BLAMES (a good response is reported as a failure), BOASTS (an error is reported as
// a success), SILENT (nothing is reported).

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "triton.h"

typedef struct TRITONSERVER_BufferAttributes Attributes;
typedef struct TRITONBACKEND_ModelInstanceResponseStatistics Statistics;

Error *TRITONBACKEND_ModelBackend(Model *, Backend **);
Error *TRITONBACKEND_BackendExecutionPolicy(Backend *, int *);
Error *TRITONBACKEND_BackendSetExecutionPolicy(Backend *, int);
Error *TRITONSERVER_BufferAttributesNew(Attributes **);
Error *TRITONSERVER_BufferAttributesDelete(Attributes *);
Error *TRITONSERVER_BufferAttributesSetByteSize(Attributes *, size_t);
Error *TRITONBACKEND_ModelReportMemoryUsage(Model *, Attributes **, uint32_t);
Error *TRITONBACKEND_ModelInstanceReportMemoryUsage(Instance *, Attributes **, uint32_t);
Error *TRITONBACKEND_ModelInstanceResponseStatisticsNew(Statistics **);
Error *TRITONBACKEND_ModelInstanceResponseStatisticsDelete(Statistics *);
Error *TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance(Statistics *, Instance *);
Error *TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory(Statistics *, Factory *);
Error *TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart(Statistics *, uint64_t);
Error *TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart(Statistics *, uint64_t);
Error *TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd(Statistics *, uint64_t);
Error *TRITONBACKEND_ModelInstanceResponseStatisticsSetError(Statistics *, Error *);
Error *TRITONBACKEND_ModelInstanceReportResponseStatistics(Statistics *);

enum { DEVICE_BLOCKING = 1 };

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

// check logs function returned an error, which would be lost otherwise.
static void check(Error *e, const char *what) {
  if (e == NULL) return;
  TRITONSERVER_LogMessage(2, __FILE__, __LINE__, what);
  TRITONSERVER_ErrorDelete(e);
}

#define CHECK(call) check(call, "a report failed: " #call)

Error *TRITONBACKEND_Initialize(Backend *b) { return TRITONBACKEND_BackendSetExecutionPolicy(b, DEVICE_BLOCKING); }

Error *TRITONBACKEND_ModelInitialize(Model *m) {
  Backend *b;
  Attributes *used;
  int policy = 0;
  CHECK(TRITONBACKEND_ModelBackend(m, &b));
  CHECK(TRITONBACKEND_BackendExecutionPolicy(b, &policy));
  CHECK(TRITONSERVER_BufferAttributesNew(&used));
  CHECK(TRITONSERVER_BufferAttributesSetByteSize(used, 1000));
  CHECK(TRITONBACKEND_ModelReportMemoryUsage(m, &used, 1));
  CHECK(TRITONSERVER_BufferAttributesDelete(used));
  return policy == DEVICE_BLOCKING ? NULL : TRITONSERVER_ErrorNew(1, "the execution policy was not kept");
}

enum what { HONEST, BLAMES, BOASTS, SILENT };

enum { MS = 1000000 };

// report reports one response, as a decoupled backend does.
static void report(Instance *i, Request *q, uint64_t start, uint64_t end, Error *failure) {
  Statistics *s;
  Factory *f;
  CHECK(TRITONBACKEND_ResponseFactoryNew(&f, q));
  CHECK(TRITONBACKEND_ModelInstanceResponseStatisticsNew(&s));
  CHECK(TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance(s, i));
  CHECK(TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory(s, f));
  CHECK(TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart(s, start));
  CHECK(TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart(s, end - 2 * MS));
  CHECK(TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd(s, end));
  CHECK(TRITONBACKEND_ModelInstanceResponseStatisticsSetError(s, failure));
  CHECK(TRITONBACKEND_ModelInstanceReportResponseStatistics(s));
  // a second report is of the second response, which was empty
  CHECK(TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart(s, 0));
  CHECK(TRITONBACKEND_ModelInstanceResponseStatisticsSetError(s, NULL));
  CHECK(TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd(s, start + 3 * MS));
  CHECK(TRITONBACKEND_ModelInstanceReportResponseStatistics(s));
  CHECK(TRITONBACKEND_ModelInstanceResponseStatisticsDelete(s));
  CHECK(TRITONBACKEND_ResponseFactoryDelete(f));
}

Error *TRITONBACKEND_ModelInstanceExecute(Instance *i, Request **requests, uint32_t count) {
  uint64_t start = now();
  for (uint32_t k = 0; k < count; k++) usleep((useconds_t)(values(requests[k])[0] * 1000));
  uint64_t end = now();
  bool reports = false;
  for (uint32_t k = 0; k < count; k++) {
    Response *r;
    enum what what = (enum what)values(requests[k])[1];
    Error *failure = what == BOASTS ? TRITONSERVER_ErrorNew(1, "it fails") : NULL;
    TRITONBACKEND_ResponseNew(&r, requests[k]);
    if (failure == NULL) copy(requests[k], r, "OUT");
    if (what != SILENT) report(i, requests[k], start, end, failure);
    TRITONBACKEND_ResponseSend(r, FINAL, failure);
    TRITONSERVER_ErrorDelete(failure);
    if (what != SILENT)
      CHECK(TRITONBACKEND_ModelInstanceReportStatistics(
          i, requests[k], what != BLAMES, start, start + MS, end - 2 * MS, end));
    TRITONBACKEND_RequestRelease(requests[k], ALL);
    reports = reports || what != SILENT;
  }
  if (reports) CHECK(TRITONBACKEND_ModelInstanceReportBatchStatistics(i, 5, start, start + MS, end - 2 * MS, end));
  CHECK(TRITONBACKEND_ModelInstanceReportMemoryUsage(i, NULL, 0));
  return NULL;
}
