// The requests that a backend executes.

#include <stdlib.h>
#include <string.h>

#include "object.h"
#include "record.h"

void retain_request(TRITONBACKEND_Request *q) { atomic_fetch_add(&q->refs, 1); }

void release_request(TRITONBACKEND_Request *q) {
  if (atomic_fetch_sub(&q->refs, 1) != 1) return;
  free(q->record);
  free(q->inputs);
  free(q->parameters);
  free(q->outputs);
  free_states(q);
  clear_trace(&q->trace);
  free(q);
}

// left_out is the address of an input whose data is not in this process; see encode.go.
enum { left_out = 1 };

static void read_input(cursor *c, TRITONBACKEND_Input *in) {
  uint64_t n;
  in->name = text(c, &n);
  in->type = (int)number(c);
  in->dims = (uint32_t)number(c);
  in->shape = (const int64_t *)bytes(c, 8 * (uint64_t)in->dims);
  uint64_t at = number(c);
  in->size = number(c);
  if (at == 0)
    in->data = bytes(c, in->size);
  else if (at != left_out)
    in->data = (const void *)(uintptr_t)at;
  in->attributes.size = in->size;
}

TRITONBACKEND_Request *nt_request(const char *record, uint64_t size) {
  TRITONBACKEND_Request *q = must_have(calloc(1, sizeof *q));
  q->record = must_have(malloc(size));
  memcpy(q->record, record, size);
  cursor c = {q->record};
  atomic_init(&q->refs, 2);
  q->released.kind = EVENT_RELEASE;
  q->handle = number(&c);
  q->correlation = number(&c);
  q->timeout = number(&c);
  q->priority = number(&c);
  q->flags = (uint32_t)number(&c);
  q->input_count = (uint32_t)number(&c);
  q->output_count = (uint32_t)number(&c);
  q->parameter_count = (uint32_t)number(&c);
  bool traced = number(&c) != 0;
  q->trace.number = number(&c);
  uint64_t n;
  q->id = text(&c, &n);
  q->correlation_text = text(&c, &n);
  const char *context = text(&c, &n);
  if (traced) q->trace.context = copy_text(context);
  q->trace.id = (char *)q->id;
  if (the_model != NULL) {
    q->trace.model = the_model->name;
    q->trace.version = (int64_t)the_model->version;
  }
  if (traced) q->trace.handle = q->handle;
  q->inputs = array(q->input_count, sizeof *q->inputs);
  for (uint32_t i = 0; i < q->input_count; i++) read_input(&c, &q->inputs[i]);
  q->outputs = array(q->output_count, sizeof *q->outputs);
  for (uint32_t i = 0; i < q->output_count; i++) q->outputs[i] = text(&c, &n);
  q->parameters = array(q->parameter_count, sizeof *q->parameters);
  for (uint32_t i = 0; i < q->parameter_count; i++) read_parameter(&c, &q->parameters[i]);
  return q;
}

void nt_cancel(TRITONBACKEND_Request *q) {
  if (q != NULL) atomic_store(&q->cancelled, true);
}

error TRITONBACKEND_RequestId(TRITONBACKEND_Request *q, const char **id) {
  *id = q->id;
  return NULL;
}

error TRITONBACKEND_RequestCorrelationId(TRITONBACKEND_Request *q, uint64_t *id) {
  if (q->correlation_text[0] != 0)
    return new_error(CODE_INVALID_ARG, "given request's correlation id is not an unsigned int");
  *id = q->correlation;
  return NULL;
}

error TRITONBACKEND_RequestCorrelationIdString(TRITONBACKEND_Request *q, const char **id) {
  if (q->correlation_text[0] == 0)
    return new_error(CODE_INVALID_ARG, "given request's correlation id is not a string");
  *id = q->correlation_text;
  return NULL;
}

error TRITONBACKEND_RequestFlags(TRITONBACKEND_Request *q, uint32_t *flags) {
  *flags = q->flags;
  return NULL;
}

error TRITONBACKEND_InferenceRequestTimeoutMicroseconds(TRITONBACKEND_Request *q, uint64_t *timeout) {
  *timeout = q->timeout;
  return NULL;
}

error TRITONBACKEND_RequestIsCancelled(TRITONBACKEND_Request *q, bool *cancelled) {
  *cancelled = atomic_load(&q->cancelled);
  return NULL;
}

error TRITONBACKEND_RequestParameterCount(TRITONBACKEND_Request *q, uint32_t *count) {
  *count = q->parameter_count;
  return NULL;
}

// out_of_bounds is the error for an index from count on.
static error out_of_bounds(uint32_t index, const char *what, uint32_t count) {
  return new_error(CODE_INVALID_ARG, "out of bounds index %u: request has %u %s", index, count, what);
}

error TRITONBACKEND_RequestParameter(
    TRITONBACKEND_Request *q, uint32_t index, const char **key, int *type, const void **value) {
  if (index >= q->parameter_count) return out_of_bounds(index, "parameters", q->parameter_count);
  TRITONSERVER_Parameter *p = &q->parameters[index];
  *key = p->name;
  *type = p->type;
  *value = parameter_value(p);
  return NULL;
}

error TRITONBACKEND_RequestInputCount(TRITONBACKEND_Request *q, uint32_t *count) {
  *count = q->input_count;
  return NULL;
}

error TRITONBACKEND_RequestInputName(TRITONBACKEND_Request *q, uint32_t index, const char **name) {
  *name = NULL;
  if (index >= q->input_count) return out_of_bounds(index, "inputs", q->input_count);
  *name = q->inputs[index].name;
  return NULL;
}

error TRITONBACKEND_RequestInput(TRITONBACKEND_Request *q, const char *name, TRITONBACKEND_Input **input) {
  *input = NULL;
  for (uint32_t i = 0; i < q->input_count; i++) {
    if (strcmp(q->inputs[i].name, name) != 0) continue;
    *input = &q->inputs[i];
    return NULL;
  }
  return new_error(CODE_INVALID_ARG, "unknown request input name %s", name);
}

error TRITONBACKEND_RequestInputByIndex(TRITONBACKEND_Request *q, uint32_t index, TRITONBACKEND_Input **input) {
  *input = NULL;
  if (index >= q->input_count) return out_of_bounds(index, "inputs", q->input_count);
  *input = &q->inputs[index];
  return NULL;
}

error TRITONBACKEND_RequestOutputCount(TRITONBACKEND_Request *q, uint32_t *count) {
  *count = q->output_count;
  return NULL;
}

error TRITONBACKEND_RequestOutputName(TRITONBACKEND_Request *q, uint32_t index, const char **name) {
  *name = NULL;
  if (index >= q->output_count) return out_of_bounds(index, "requested outputs", q->output_count);
  *name = q->outputs[index];
  return NULL;
}

error TRITONBACKEND_RequestTrace(TRITONBACKEND_Request *q, TRITONSERVER_InferenceTrace **trace) {
  *trace = q->trace.handle == 0 ? NULL : &q->trace;
  return NULL;
}

// The server takes outputs of any size in memory of the CPU.
error TRITONBACKEND_RequestOutputBufferProperties(
    TRITONBACKEND_Request *q, const char *name, size_t *size, int *memory, int64_t *id) {
  *memory = MEMORY_CPU;
  *id = 0;
  return NULL;
}

error TRITONBACKEND_RequestRelease(TRITONBACKEND_Request *q, uint32_t flags) {
  if (atomic_exchange(&q->gone, true)) return new_error(CODE_INVALID_ARG, "the request was released already");
  q->release_flags = flags;
  push_event(&q->released);
  return NULL;
}

error TRITONBACKEND_InputPropertiesForHostPolicy(TRITONBACKEND_Input *in, const char *policy, const char **name,
    int *type, const int64_t **shape, uint32_t *dims, uint64_t *size, uint32_t *buffers) {
  if (name != NULL) *name = in->name;
  if (type != NULL) *type = in->type;
  if (shape != NULL) *shape = in->shape;
  if (dims != NULL) *dims = in->dims;
  if (size != NULL) *size = in->size;
  if (buffers != NULL) *buffers = 1;
  return NULL;
}

error TRITONBACKEND_InputProperties(TRITONBACKEND_Input *in, const char **name, int *type, const int64_t **shape,
    uint32_t *dims, uint64_t *size, uint32_t *buffers) {
  return TRITONBACKEND_InputPropertiesForHostPolicy(in, NULL, name, type, shape, dims, size, buffers);
}

// check_buffer is the error for another buffer than the first, because a tensor is in one piece, and for data that is
// not in this process.
static error check_buffer(const TRITONBACKEND_Input *in, uint32_t index) {
  if (index != 0) return new_error(CODE_INVALID_ARG, "out of bounds index %u: input has 1 buffer", index);
  if (in->data != NULL) return NULL;
  return new_error(CODE_UNSUPPORTED, "a batching strategy does not see the %llu bytes of input '%s', only smaller ones",
      (unsigned long long)in->size, in->name);
}

error TRITONBACKEND_InputBufferForHostPolicy(TRITONBACKEND_Input *in, const char *policy, uint32_t index,
    const void **data, uint64_t *size, int *memory, int64_t *id) {
  *data = in->data;
  *size = in->size;
  *memory = MEMORY_CPU;
  *id = 0;
  return check_buffer(in, index);
}

error TRITONBACKEND_InputBuffer(
    TRITONBACKEND_Input *in, uint32_t index, const void **data, uint64_t *size, int *memory, int64_t *id) {
  return TRITONBACKEND_InputBufferForHostPolicy(in, NULL, index, data, size, memory, id);
}

error TRITONBACKEND_InputBufferAttributes(
    TRITONBACKEND_Input *in, uint32_t index, const void **data, TRITONSERVER_BufferAttributes **attributes) {
  *data = in->data;
  *attributes = &in->attributes;
  return check_buffer(in, index);
}
