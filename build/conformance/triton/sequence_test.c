// A backend with an implicit state: each output is the sum of the inputs of its sequence so far. The library keeps
// nothing. An input that begins with -1 sets a state that the model does not have, one with -2 ends the process. One
// with -3 adds nothing: the output is what the buffer of the state begins with.

#include "triton.h"

// tensor returns the data of an input, with its shape, type and size.
static const void *tensor(Request *q, const char *name, const int64_t **shape, uint32_t *dims, int *type,
    uint64_t *size) {
  Input *in;
  const void *data;
  uint32_t buffers;
  int64_t id;
  int memory;
  Error *e = TRITONBACKEND_RequestInput(q, name, &in);
  if (e != NULL) {
    TRITONSERVER_ErrorDelete(e);
    return NULL;
  }
  TRITONBACKEND_InputProperties(in, NULL, type, shape, dims, size, &buffers);
  TRITONBACKEND_InputBuffer(in, 0, &data, size, &memory, &id);
  return data;
}

static Error *add(Request *q, Response *r) {
  const int64_t *shape;
  uint32_t dims;
  int type, memory;
  uint64_t size, state_size = 0;
  int64_t id;
  Output *out;
  State *state;
  void *to, *next;
  const float *sum = tensor(q, "SUM_IN", &shape, &dims, &type, &state_size);
  const float *in = tensor(q, "IN", &shape, &dims, &type, &size);
  if (in[0] == -2) abort();
  Error *e = TRITONBACKEND_StateNew(&state, q, in[0] == -1 ? "NOBODY" : "SUM_OUT", type, shape, dims);
  if (e != NULL) return e;
  if (state_size != size) return TRITONSERVER_ErrorNew(1, "the state and the input differ in size");
  TRITONBACKEND_StateBuffer(state, &next, size, &memory, &id);
  TRITONBACKEND_ResponseOutput(r, &out, "OUT", type, shape, dims);
  TRITONBACKEND_OutputBuffer(out, &to, size, &memory, &id);
  for (uint64_t i = 0; i < size / sizeof(float); i++) ((float *)to)[i] = sum[i] + in[i];
  if (in[0] == -3) memcpy(to, next, size);
  memcpy(next, to, size);
  return TRITONBACKEND_StateUpdate(state);
}

Error *TRITONBACKEND_ModelInstanceExecute(Instance *i, Request **requests, uint32_t count) {
  for (uint32_t k = 0; k < count; k++) {
    Response *r;
    TRITONBACKEND_ResponseNew(&r, requests[k]);
    Error *e = add(requests[k], r);
    TRITONBACKEND_ResponseSend(r, FINAL, e);
    TRITONSERVER_ErrorDelete(e);
    TRITONBACKEND_RequestRelease(requests[k], ALL);
  }
  return NULL;
}
