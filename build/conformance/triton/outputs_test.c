// A backend that answers with the input. Before that it looks at the names of the requested outputs and at its own
// output, by index and by name. What is wrong there is the error of the response.
#include <stdio.h>

#include "triton.h"

int TRITONSERVER_ErrorCode(Error *);
Error *TRITONBACKEND_RequestOutputCount(Request *, uint32_t *);
Error *TRITONBACKEND_RequestOutputName(Request *, uint32_t index, const char **name);
Error *TRITONBACKEND_InferenceResponseOutput(
    Response *, uint32_t index, const char **name, int *type, const int64_t **shape, uint64_t *dims);
Error *TRITONBACKEND_InferenceResponseOutputByName(
    Response *, const char *name, int *type, const int64_t **shape, uint64_t *dims);

enum { NOT_FOUND = 2, INVALID_ARG = 3, FP32 = 11 };

#define CHECK(ok) \
  if (!(ok)) return TRITONSERVER_ErrorNew(1, "not true: " #ok)

// is reports whether an error has a code and a text, and deletes it.
static bool is(Error *e, int code, const char *text) {
  bool same = e && TRITONSERVER_ErrorCode(e) == code && strcmp(TRITONSERVER_ErrorMessage(e), text) == 0;
  if (e) TRITONSERVER_ErrorDelete(e);
  return same;
}

static Error *look(Request *q, Response *r) {
  Input *in;
  const char *name;
  const int64_t *shape, *same;
  int type;
  uint32_t count, rank, buffers;
  uint64_t dims, size;
  char text[100];
  TRITONBACKEND_RequestInputByIndex(q, 0, &in);
  TRITONBACKEND_InputProperties(in, NULL, &type, &same, &rank, &size, &buffers);

  CHECK(TRITONBACKEND_RequestOutputCount(q, &count) == NULL);
  for (uint32_t i = 0; i < count; i++) {
    CHECK(TRITONBACKEND_RequestOutputName(q, i, &name) == NULL);
    CHECK(strcmp(name, "OUT") == 0);
  }
  snprintf(text, sizeof text, "out of bounds index %u: request has %u requested outputs", count, count);
  CHECK(is(TRITONBACKEND_RequestOutputName(q, count, &name), INVALID_ARG, text));
  CHECK(name == NULL);

  CHECK(TRITONBACKEND_InferenceResponseOutput(r, 0, &name, &type, &shape, &dims) == NULL);
  CHECK(strcmp(name, "OUT") == 0 && type == FP32 && dims == rank && memcmp(shape, same, rank * sizeof *shape) == 0);
  CHECK(is(TRITONBACKEND_InferenceResponseOutput(r, 1, &name, &type, &shape, &dims), INVALID_ARG,
           "out of bounds index 1: response has 1 outputs"));

  shape = NULL, type = 0, dims = 0;
  CHECK(TRITONBACKEND_InferenceResponseOutputByName(r, "OUT", &type, &shape, &dims) == NULL);
  CHECK(type == FP32 && dims == rank && memcmp(shape, same, rank * sizeof *shape) == 0);
  CHECK(is(TRITONBACKEND_InferenceResponseOutputByName(r, "OU", &type, &shape, &dims), NOT_FOUND,
           "Output name OUnot found."));  // as Triton writes it
  return NULL;
}

Error *TRITONBACKEND_ModelInstanceExecute(Instance *i, Request **requests, uint32_t count) {
  for (uint32_t k = 0; k < count; k++) {
    Response *r;
    TRITONBACKEND_ResponseNew(&r, requests[k]);
    copy(requests[k], r, "OUT");
    Error *e = look(requests[k], r);
    TRITONBACKEND_ResponseSend(r, FINAL, e);
    if (e != NULL) TRITONSERVER_ErrorDelete(e);
    TRITONBACKEND_RequestRelease(requests[k], ALL);
  }
  return NULL;
}
