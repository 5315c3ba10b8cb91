// A backend for iterative sequences: it is asked again for each request until it has counted to the input. With the
// implicit state COUNT_OUT the server keeps the count, and the answer has it. Without, the library keeps it in the one
// place below, and each step has a response.

#include "triton.h"

enum { INVALID_ARG = 3 };

static float counted;

static Response *answer(Request *q, float count) {
  Response *r;
  Output *out;
  void *to;
  int memory;
  int64_t id, shape[] = {1};
  TRITONBACKEND_ResponseNew(&r, q);
  TRITONBACKEND_ResponseOutput(r, &out, "OUT", 11, shape, 1);
  TRITONBACKEND_OutputBuffer(out, &to, sizeof count, &memory, &id);
  memcpy(to, &count, sizeof count);
  return r;
}

static float first(Input *in) {
  const void *data;
  uint64_t size;
  int64_t id;
  int memory;
  TRITONBACKEND_InputBuffer(in, 0, &data, &size, &memory, &id);
  return *(const float *)data;
}

static void step(Request *q) {
  Input *in, *before = NULL;
  uint32_t flags;
  TRITONBACKEND_RequestInput(q, "IN", &in);
  Error *none = TRITONBACKEND_RequestInput(q, "COUNT_IN", &before);
  TRITONBACKEND_RequestFlags(q, &flags);
  if (before == NULL) {
    TRITONSERVER_ErrorDelete(none);
    if (flags & 1) counted = 0;
  }
  float count = (before == NULL ? counted : first(before)) + 1;
  bool last = count >= first(in);
  if (before == NULL) {
    counted = count;
    Response *r = answer(q, count);
    bool after = !last && (int)count % 2 == 0; // a response may be sent after the release of its request
    if (after) TRITONBACKEND_RequestRelease(q, RESCHEDULE);
    TRITONBACKEND_ResponseSend(r, last ? FINAL : 0, NULL);
    if (after) return;
  } else {
    State *state;
    void *to;
    int memory;
    int64_t id, shape[] = {1};
    TRITONBACKEND_StateNew(&state, q, "COUNT_OUT", 11, shape, 1);
    TRITONBACKEND_StateBuffer(state, &to, sizeof count, &memory, &id);
    memcpy(to, &count, sizeof count);
    TRITONBACKEND_StateUpdate(state);
    if (last) TRITONBACKEND_ResponseSend(answer(q, count), FINAL, NULL);
  }
  TRITONBACKEND_RequestRelease(q, last ? ALL : RESCHEDULE);
}

Error *TRITONBACKEND_ModelInstanceExecute(Instance *i, Request **requests, uint32_t count) {
  for (uint32_t k = 0; k < count; k++) {
    Input *in;
    TRITONBACKEND_RequestInput(requests[k], "IN", &in);
    if (first(in) < 0) { // the request is given back, and then the execution fails
      TRITONBACKEND_RequestRelease(requests[k], RESCHEDULE);
      return TRITONSERVER_ErrorNew(INVALID_ARG, "there are no steps back");
    }
    step(requests[k]);
  }
  return NULL;
}
