// The responses of other models, and the memory that their caller gives for them.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "host.h"
#include "record.h"
#include "shim.h"

error TRITONSERVER_ResponseAllocatorNew(
    TRITONSERVER_ResponseAllocator **a, allocate_function allocate, free_function release, start_function start) {
  *a = must_have(calloc(1, sizeof **a));
  (*a)->allocate = allocate;
  (*a)->free = release;
  (*a)->start = start;
  return NULL;
}

error TRITONSERVER_ResponseAllocatorSetQueryFunction(TRITONSERVER_ResponseAllocator *a, query_function query) {
  NEED(a, "allocator");
  a->query = query;
  return NULL;
}

error TRITONSERVER_ResponseAllocatorSetBufferAttributesFunction(
    TRITONSERVER_ResponseAllocator *a, attributes_function attributes) {
  NEED(a, "allocator");
  a->attributes = attributes;
  return NULL;
}

error TRITONSERVER_ResponseAllocatorDelete(TRITONSERVER_ResponseAllocator *a) {
  free(a);
  return NULL;
}

// log_failure logs an error of a function of the caller's, which nobody else would see.
static void log_failure(const char *what, error e) {
  char *text = NULL;
  if (asprintf(&text, "%s: %s", what, e->text) < 0) text = NULL;
  host_log(LOG_ERROR, "answer.c", __LINE__, text == NULL ? what : text);
  free(text);
}

static void free_outputs(TRITONSERVER_InferenceResponse *r) {
  for (uint32_t i = 0; i < r->output_count; i++) {
    client_output *o = &r->outputs[i];
    error e = r->allocator->free(r->allocator, o->data, o->userp, o->size, o->memory, o->memory_id);
    if (e != NULL) log_failure("failed to release the memory of an output", e);
    nt_delete_error(e);
  }
  r->output_count = 0;
}

// Backends also delete a response that they do not have.
error TRITONSERVER_InferenceResponseDelete(TRITONSERVER_InferenceResponse *r) {
  if (r == NULL) return NULL;
  free_outputs(r);
  nt_delete_error(r->failure);
  if (r->labels != 0) host_forget_labels(r->labels);
  for (uint32_t i = 0; i < r->label_count; i++) free(r->label_texts[i]);
  free(r->label_texts);
  free(r->outputs);
  free(r->parameters);
  free(r->record);
  free(r);
  return NULL;
}

// The error stays the response's.
error TRITONSERVER_InferenceResponseError(TRITONSERVER_InferenceResponse *r) {
  NEED(r, "response");
  return r->failure;
}

error TRITONSERVER_InferenceResponseModel(TRITONSERVER_InferenceResponse *r, const char **name, int64_t *version) {
  NEED(r, "response");
  *name = r->model;
  *version = r->version;
  return NULL;
}

error TRITONSERVER_InferenceResponseId(TRITONSERVER_InferenceResponse *r, const char **id) {
  NEED(r, "response");
  *id = r->id;
  return NULL;
}

error TRITONSERVER_InferenceResponseParameterCount(TRITONSERVER_InferenceResponse *r, uint32_t *count) {
  NEED(r, "response");
  *count = r->parameter_count;
  return NULL;
}

// out_of_bounds is the error for an index from count on.
static error out_of_bounds(uint32_t index, const char *what, uint32_t count) {
  return new_error(CODE_INVALID_ARG, "out of bounds index %u: response has %u %s", index, count, what);
}

error TRITONSERVER_InferenceResponseParameter(
    TRITONSERVER_InferenceResponse *r, uint32_t index, const char **name, int *type, const void **value) {
  NEED(r, "response");
  if (index >= r->parameter_count) return out_of_bounds(index, "parameters", r->parameter_count);
  TRITONSERVER_Parameter *p = &r->parameters[index];
  *name = p->name;
  *type = p->type;
  *value = parameter_value(p);
  return NULL;
}

error TRITONSERVER_InferenceResponseOutputCount(TRITONSERVER_InferenceResponse *r, uint32_t *count) {
  NEED(r, "response");
  *count = r->output_count;
  return NULL;
}

error TRITONSERVER_InferenceResponseOutput(TRITONSERVER_InferenceResponse *r, uint32_t index, const char **name,
    int *type, const int64_t **shape, uint64_t *dims, const void **data, size_t *size, int *memory, int64_t *memory_id,
    void **userp) {
  NEED(r, "response");
  if (index >= r->output_count) return out_of_bounds(index, "outputs", r->output_count);
  client_output *o = &r->outputs[index];
  *name = o->name;
  *type = o->type;
  *shape = o->shape;
  *dims = o->dims;
  *data = o->data;
  *size = o->size;
  *memory = o->memory;
  *memory_id = o->memory_id;
  *userp = o->userp;
  return NULL;
}

error TRITONSERVER_InferenceResponseOutputClassificationLabel(
    TRITONSERVER_InferenceResponse *r, uint32_t index, size_t class, const char **label) {
  NEED(r, "response");
  *label = NULL;
  if (index >= r->output_count) return out_of_bounds(index, "outputs", r->output_count);
  char *text = r->labels == 0 ? NULL : host_label(r->labels, r->outputs[index].name, class);
  if (text == NULL) return NULL;
  r->label_texts = must_have(realloc(r->label_texts, (r->label_count + 1) * sizeof *r->label_texts));
  r->label_texts[r->label_count++] = text;
  *label = text;
  return NULL;
}

// allocate_output asks the allocator for the memory of an output, where it prefers it to be.
static error allocate_output(TRITONSERVER_ResponseAllocator *a, void *userp, client_output *o) {
  int memory = MEMORY_CPU;
  int64_t id = 0;
  size_t size = o->size;
  error e = a->query == NULL ? NULL : a->query(a, userp, o->name, &size, &memory, &id);
  if (e != NULL) return e;
  o->memory = memory;
  o->memory_id = id;
  e = a->allocate(a, o->name, o->size, memory, id, userp, &o->data, &o->userp, &o->memory, &o->memory_id);
  if (e != NULL || a->attributes == NULL) return e;
  TRITONSERVER_BufferAttributes attributes = {.size = o->size, .memory = o->memory, .memory_id = o->memory_id};
  e = a->attributes(a, o->name, &attributes, userp, o->userp);
  if (e != NULL && o->data != NULL) nt_delete_error(a->free(a, o->data, o->userp, o->size, o->memory, o->memory_id));
  return e;
}

// read_output appends an output to a response, copied into memory of the caller's.
static error read_output(cursor *c, TRITONSERVER_InferenceRequest *q, TRITONSERVER_InferenceResponse *r) {
  client_output *o = &r->outputs[r->output_count];
  uint64_t n;
  o->name = text(c, &n);
  o->type = (int)number(c);
  o->dims = (uint32_t)number(c);
  o->shape = (const int64_t *)bytes(c, 8 * (uint64_t)o->dims);
  const void *from = (const void *)(uintptr_t)number(c);
  o->size = number(c);
  if (from == NULL) from = bytes(c, o->size);
  error e = allocate_output(q->allocator, q->allocator_userp, o);
  if (e != NULL) return e;
  if (o->data == NULL && o->size > 0)
    return new_error(CODE_INTERNAL, "the allocator returned no memory for the %llu bytes of output '%s'",
        (unsigned long long)o->size, o->name);
  r->output_count++;  // its memory is freed with the response from here on
  if (o->memory == MEMORY_GPU)
    return new_error(CODE_UNSUPPORTED, "output '%s' cannot be written into memory of a GPU", o->name);
  if (o->size > 0) memcpy(o->data, from, o->size);
  return NULL;
}

static void read_response(TRITONSERVER_InferenceResponse *r, TRITONSERVER_InferenceRequest *q) {
  cursor c = {r->record};
  uint64_t n;
  int code = (int)number(&c);
  const char *why = text(&c, &n);
  r->model = text(&c, &n);
  r->version = (int64_t)number(&c);
  r->id = text(&c, &n);
  r->labels = number(&c);
  if (code >= 0) {
    r->failure = new_error(code, "%s", why);
    return;
  }
  if (q->allocator->start != NULL) r->failure = q->allocator->start(q->allocator, q->allocator_userp);
  r->parameter_count = (uint32_t)number(&c);
  uint64_t outputs = number(&c);
  r->parameters = array(r->parameter_count, sizeof *r->parameters);
  for (uint32_t i = 0; i < r->parameter_count; i++) read_parameter(&c, &r->parameters[i]);
  r->outputs = array(outputs, sizeof *r->outputs);
  while (r->failure == NULL && r->output_count < outputs) r->failure = read_output(&c, q, r);
  if (r->failure != NULL) free_outputs(r);
}

_Thread_local bool nt_answering;

void nt_answer(TRITONSERVER_InferenceRequest *q, const char *record, uint64_t size, uint32_t flags) {
  nt_answering = true;
  TRITONSERVER_InferenceResponse *r = NULL;
  if (record != NULL) {
    r = must_have(calloc(1, sizeof *r));
    r->record = must_have(malloc(size));
    memcpy(r->record, record, size);
    r->allocator = q->allocator;
    read_response(r, q);
  }
  response_function respond = q->respond;
  void *userp = q->respond_userp;
  if (flags & RESPONSE_FINAL) q->release(q, RELEASE_ALL, q->release_userp);  // q may be gone
  respond(r, flags, userp);
  nt_answering = false;
}
