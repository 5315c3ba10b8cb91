// Responses, their outputs, and the queue in which they and released requests wait for Go.

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "shim.h"
#include "object.h"

// inline_limit is the size in bytes up to which an output travels in a packet. It need not be in shared memory.
enum { inline_limit = 8192 };

static struct {
  pthread_mutex_t lock;
  event *first, **last;
} queue = {PTHREAD_MUTEX_INITIALIZER, NULL, &queue.first};

// executing says that Go takes the events of this thread when the call into the backend returns.
static _Thread_local bool executing;

void nt_executing(bool on) { executing = on; }

void push_event(event *e) {
  e->next = NULL;
  pthread_mutex_lock(&queue.lock);
  *queue.last = e;
  queue.last = &e->next;
  pthread_mutex_unlock(&queue.lock);
  if (!executing) host_wake();
}

event *nt_take_events(void) {
  pthread_mutex_lock(&queue.lock);
  event *first = queue.first;
  queue.first = NULL;
  queue.last = &queue.first;
  pthread_mutex_unlock(&queue.lock);
  return first;
}

static TRITONBACKEND_Response *new_response(TRITONBACKEND_Request *q) {
  TRITONBACKEND_Response *r = must_have(calloc(1, sizeof *r));
  r->sent.kind = EVENT_RESPONSE;
  r->request = q;
  retain_request(q);
  return r;
}

error TRITONBACKEND_ResponseNew(TRITONBACKEND_Response **r, TRITONBACKEND_Request *q) {
  *r = new_response(q);
  return NULL;
}

error TRITONBACKEND_ResponseFactoryNew(TRITONBACKEND_ResponseFactory **f, TRITONBACKEND_Request *q) {
  *f = must_have(calloc(1, sizeof **f));
  (*f)->request = q;
  retain_request(q);
  return NULL;
}

error TRITONBACKEND_ResponseFactoryDelete(TRITONBACKEND_ResponseFactory *f) {
  if (f == NULL) return NULL;
  release_request(f->request);
  free(f);
  return NULL;
}

error TRITONBACKEND_ResponseFactoryIsCancelled(TRITONBACKEND_ResponseFactory *f, bool *cancelled) {
  *cancelled = atomic_load(&f->request->cancelled);
  return NULL;
}

error TRITONBACKEND_ResponseFactorySendFlags(TRITONBACKEND_ResponseFactory *f, uint32_t flags) {
  TRITONBACKEND_Response *r = new_response(f->request);
  r->flags = flags;
  r->empty = true;
  push_event(&r->sent);
  return NULL;
}

error TRITONBACKEND_ResponseNewFromFactory(TRITONBACKEND_Response **r, TRITONBACKEND_ResponseFactory *f) {
  *r = new_response(f->request);
  return NULL;
}

TRITONBACKEND_Output *new_output(const char *name, int type, const int64_t *shape, uint32_t dims) {
  TRITONBACKEND_Output *o = must_have(calloc(1, sizeof *o));
  o->name = copy_text(name);
  o->type = type;
  o->dims = dims;
  o->shape = must_have(calloc(dims + 1, sizeof *o->shape));
  if (dims > 0) memcpy(o->shape, shape, dims * sizeof *shape);
  return o;
}

void free_output(TRITONBACKEND_Output *o) {
  if (o->reserved != 0)
    host_unreserve(o->reserved);
  else
    free(o->data);
  free(o->name);
  free(o->shape);
  free(o);
}

void nt_free_response(TRITONBACKEND_Response *r) {
  for (uint32_t i = 0; i < r->output_count; i++) free_output(r->outputs[i]);
  for (uint32_t i = 0; i < r->parameter_count; i++) clear_parameter(&r->parameters[i]);
  free(r->outputs);
  free(r->parameters);
  nt_delete_error(r->failure);
  release_request(r->request);
  free(r);
}

error TRITONBACKEND_ResponseDelete(TRITONBACKEND_Response *r) {
  if (r == NULL) return NULL;
  nt_free_response(r);
  return NULL;
}

// add_parameter adds a parameter of a type, without its value.
static TRITONSERVER_Parameter *add_parameter(TRITONBACKEND_Response *r, const char *name, int type) {
  r->parameters = must_have(realloc(r->parameters, (r->parameter_count + 1) * sizeof *r->parameters));
  TRITONSERVER_Parameter *p = &r->parameters[r->parameter_count++];
  memset(p, 0, sizeof *p);
  p->name = copy_text(name);
  p->type = type;
  return p;
}

error TRITONBACKEND_ResponseSetStringParameter(TRITONBACKEND_Response *r, const char *name, const char *value) {
  TRITONSERVER_Parameter *p = add_parameter(r, name, PARAMETER_STRING);
  p->text = copy_text(value);
  p->size = strlen(value);
  return NULL;
}

error TRITONBACKEND_ResponseSetIntParameter(TRITONBACKEND_Response *r, const char *name, int64_t value) {
  add_parameter(r, name, PARAMETER_INT)->integer = value;
  return NULL;
}

error TRITONBACKEND_ResponseSetBoolParameter(TRITONBACKEND_Response *r, const char *name, bool value) {
  add_parameter(r, name, PARAMETER_BOOL)->flag = value;
  return NULL;
}

error TRITONBACKEND_ResponseSetDoubleParameter(TRITONBACKEND_Response *r, const char *name, double value) {
  add_parameter(r, name, PARAMETER_DOUBLE)->real = value;
  return NULL;
}

error TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response *r, TRITONBACKEND_Output **output, const char *name,
    int type, const int64_t *shape, uint32_t dims) {
  r->outputs = must_have(realloc(r->outputs, (r->output_count + 1) * sizeof *r->outputs));
  r->outputs[r->output_count++] = *output = new_output(name, type, shape, dims);
  return NULL;
}

// Outputs that do not travel in a packet are made in memory that the server reads, so that they are not copied again.
error new_data(TRITONBACKEND_Output *o, void **data, uint64_t size, int *memory, int64_t *memory_id) {
  *memory = MEMORY_CPU;
  *memory_id = 0;
  if (o->data != NULL)
    return new_error(CODE_ALREADY_EXISTS, "the buffer of output '%s' has been allocated already", o->name);
  if (size > inline_limit) o->reserved = host_reserve(size, &o->data);
  if (o->reserved == 0 && posix_memalign(&o->data, 64, size == 0 ? 1 : size) != 0) {
    o->data = NULL;
    return new_error(CODE_UNAVAILABLE, "no memory for the %llu bytes of output '%s'", (unsigned long long)size,
        o->name);
  }
  o->attributes.size = o->size = size;
  *data = o->data;
  return NULL;
}

error TRITONBACKEND_OutputBuffer(
    TRITONBACKEND_Output *o, void **data, uint64_t size, int *memory, int64_t *memory_id) {
  return new_data(o, data, size, memory, memory_id);
}

error TRITONBACKEND_OutputBufferAttributes(TRITONBACKEND_Output *o, TRITONSERVER_BufferAttributes **attributes) {
  *attributes = &o->attributes;
  return NULL;
}

static error describe(
    TRITONBACKEND_Output *o, const char **name, int *type, const int64_t **shape, uint64_t *dims) {
  if (name != NULL) *name = o->name;
  *type = o->type;
  *shape = o->shape;
  *dims = o->dims;
  return NULL;
}

error TRITONBACKEND_InferenceResponseOutput(TRITONBACKEND_Response *r, uint32_t index, const char **name, int *type,
    const int64_t **shape, uint64_t *dims) {
  if (index >= r->output_count)
    return new_error(CODE_INVALID_ARG, "out of bounds index %u: response has %u outputs", index, r->output_count);
  return describe(r->outputs[index], name, type, shape, dims);
}

error TRITONBACKEND_InferenceResponseOutputByName(
    TRITONBACKEND_Response *r, const char *name, int *type, const int64_t **shape, uint64_t *dims) {
  for (uint32_t i = 0; i < r->output_count; i++)
    if (strcmp(r->outputs[i]->name, name) == 0) return describe(r->outputs[i], NULL, type, shape, dims);
  return new_error(CODE_NOT_FOUND, "Output name %snot found.", name);  // Triton's text
}

// The response is Go's from here on, and the error stays the backend's.
error TRITONBACKEND_ResponseSend(TRITONBACKEND_Response *r, uint32_t flags, error failure) {
  r->flags = flags;
  if (failure != NULL) r->failure = new_error(failure->code, "%s", failure->text);
  push_event(&r->sent);
  return NULL;
}
