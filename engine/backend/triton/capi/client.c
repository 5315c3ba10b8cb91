// Requests of a backend to other models (BLS), and those of a program with a server in it: how they are made and sent.

#include "client.h"

#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "shim.h"

typedef TRITONSERVER_InferenceRequest request;

// The limits of an input. A shape of more dimensions, or data of more bytes, is a fault of the program.
static const uint64_t most_dims = 1 << 16, most_bytes = (uint64_t)1 << 47;

// The length of the longest correlation id, as in Triton.
enum { most_correlation = 128 };

request *nt_new_request(const char *model, int64_t version) {
  request *q = must_have(calloc(1, sizeof *q));
  q->model = copy_text(model);
  q->version = version;
  q->id = copy_text("");
  q->correlation_text = copy_text("");
  return q;
}

error TRITONSERVER_InferenceRequestNew(request **q, TRITONSERVER_Server *s, const char *model, int64_t version) {
  NEED(s, "server");
  NEED(model, "name of the model");
  priorities p = {0};
  error e = host_find_model(s, model, version, &p);
  if (e != NULL) return e;
  *q = nt_new_request(model, version);
  (*q)->priorities = p;
  (*q)->priority = p.standard;
  return NULL;
}

static void free_input(client_input *in) {
  free(in->name);
  free(in->shape);
  free(in->pieces);
}

error TRITONSERVER_InferenceRequestRemoveAllInputs(request *q) {
  NEED(q, "request");
  for (uint32_t i = 0; i < q->input_count; i++) free_input(&q->inputs[i]);
  q->input_count = 0;
  q->raw = false;
  return NULL;
}

error TRITONSERVER_InferenceRequestRemoveAllRequestedOutputs(request *q) {
  NEED(q, "request");
  for (uint32_t i = 0; i < q->output_count; i++) free(q->outputs[i]);
  q->output_count = 0;
  return NULL;
}

error TRITONSERVER_InferenceRequestDelete(request *q) {
  if (q == NULL) return NULL;
  TRITONSERVER_InferenceRequestRemoveAllInputs(q);
  TRITONSERVER_InferenceRequestRemoveAllRequestedOutputs(q);
  for (uint32_t i = 0; i < q->parameter_count; i++) clear_parameter(&q->parameters[i]);
  free(q->inputs);
  free(q->outputs);
  free(q->parameters);
  free(q->model);
  free(q->id);
  free(q->correlation_text);
  free(q);
  return NULL;
}

// id_of returns the id of a request as errors name it.
static const char *id_of(const request *q) { return q->id[0] == 0 ? "<id_unknown>" : q->id; }

error TRITONSERVER_InferenceRequestId(request *q, const char **id) {
  NEED(q, "request");
  *id = q->id;
  return NULL;
}

// replace_text replaces a text by a copy.
static error replace_text(char **old, const char *text) {
  char *copy = copy_text(text == NULL ? "" : text);  // text may be the old one
  free(*old);
  *old = copy;
  return NULL;
}

error TRITONSERVER_InferenceRequestSetId(request *q, const char *id) {
  NEED(q, "request");
  return replace_text(&q->id, id);
}

error TRITONSERVER_InferenceRequestFlags(request *q, uint32_t *flags) {
  NEED(q, "request");
  *flags = q->flags;
  return NULL;
}

error TRITONSERVER_InferenceRequestSetFlags(request *q, uint32_t flags) {
  NEED(q, "request");
  q->flags = flags;
  return NULL;
}

error TRITONSERVER_InferenceRequestCorrelationId(request *q, uint64_t *id) {
  NEED(q, "request");
  if (q->correlation_text[0] != 0)
    return new_error(CODE_INVALID_ARG, "given request's correlation id is not an unsigned int");
  *id = q->correlation;
  return NULL;
}

error TRITONSERVER_InferenceRequestSetCorrelationId(request *q, uint64_t id) {
  NEED(q, "request");
  q->correlation = id;
  return replace_text(&q->correlation_text, "");
}

error TRITONSERVER_InferenceRequestCorrelationIdString(request *q, const char **id) {
  NEED(q, "request");
  if (q->correlation_text[0] == 0)
    return new_error(CODE_INVALID_ARG, "given request's correlation id is not a string");
  *id = q->correlation_text;
  return NULL;
}

error TRITONSERVER_InferenceRequestSetCorrelationIdString(request *q, const char *id) {
  NEED(q, "request");
  if (id != NULL && strlen(id) > most_correlation)
    return new_error(CODE_UNSUPPORTED, "string correlation ID cannot be longer than 128 characters");
  q->correlation = 0;
  return replace_text(&q->correlation_text, id);
}

error TRITONSERVER_InferenceRequestPriority(request *q, uint32_t *priority) {
  NEED(q, "request");
  if (q->priority > UINT32_MAX)
    return new_error(CODE_INVALID_ARG,
        "request priority overflows uint32_t, use TRITONSERVER_InferenceRequestPriorityUInt64, priority=%llu",
        (unsigned long long)q->priority);
  *priority = (uint32_t)q->priority;
  return NULL;
}

error TRITONSERVER_InferenceRequestPriorityUInt64(request *q, uint64_t *priority) {
  NEED(q, "request");
  *priority = q->priority;
  return NULL;
}

error TRITONSERVER_InferenceRequestSetPriorityUInt64(request *q, uint64_t priority) {
  NEED(q, "request");
  bool has_level = priority != 0 && (!q->priorities.known || priority <= q->priorities.most);
  q->priority = has_level ? priority : q->priorities.standard;
  return NULL;
}

error TRITONSERVER_InferenceRequestSetPriority(request *q, uint32_t priority) {
  NEED(q, "request");
  return TRITONSERVER_InferenceRequestSetPriorityUInt64(q, priority);
}

error TRITONSERVER_InferenceRequestTimeoutMicroseconds(request *q, uint64_t *timeout) {
  NEED(q, "request");
  *timeout = q->timeout;
  return NULL;
}

error TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(request *q, uint64_t timeout) {
  NEED(q, "request");
  q->timeout = timeout;
  return NULL;
}

// find_input returns the index of an input; input_count: there is none.
static uint32_t find_input(request *q, const char *name) {
  uint32_t i = 0;
  if (name == NULL) return q->input_count;
  while (i < q->input_count && strcmp(q->inputs[i].name, name) != 0) i++;
  return i;
}

static error no_input(const request *q, const char *name) {
  return new_error(CODE_INVALID_ARG, "[request id: %s] input '%s' does not exist in request", id_of(q),
      name == NULL ? "" : name);
}

error TRITONSERVER_InferenceRequestAddInput(
    request *q, const char *name, int type, const int64_t *shape, uint64_t dims) {
  NEED(q, "request");
  NEED(name, "name of the input");
  if (type < 1 || type > TYPE_LAST) return new_error(CODE_INVALID_ARG, "input '%s' has no data type %d", name, type);
  if (dims > most_dims)
    return new_error(CODE_INVALID_ARG, "input '%s' has %llu dimensions", name, (unsigned long long)dims);
  if (dims > 0) NEED(shape, "shape of the input");
  if (find_input(q, name) < q->input_count)
    return new_error(CODE_INVALID_ARG, "[request id: %s] input '%s' already exists in request", id_of(q), name);
  q->inputs = must_have(realloc(q->inputs, (q->input_count + 1) * sizeof *q->inputs));
  client_input *in = &q->inputs[q->input_count++];
  memset(in, 0, sizeof *in);
  in->name = copy_text(name);
  in->type = type;
  in->dims = dims;
  in->shape = must_have(calloc(dims + 1, sizeof *shape));
  if (dims > 0) memcpy(in->shape, shape, dims * sizeof *shape);
  return NULL;
}

error TRITONSERVER_InferenceRequestAddRawInput(request *q, const char *name) {
  NEED(q, "request");
  NEED(name, "name of the input");
  if (q->input_count > 0)
    return new_error(CODE_INVALID_ARG, "[request id: %s] raw input '%s' can't be added to request with other inputs",
        id_of(q), name);
  q->raw = true;
  return TRITONSERVER_InferenceRequestAddInput(q, name, TYPE_UINT8, NULL, 0);
}

error TRITONSERVER_InferenceRequestRemoveInput(request *q, const char *name) {
  NEED(q, "request");
  uint32_t i = find_input(q, name);
  if (i == q->input_count) return no_input(q, name);
  free_input(&q->inputs[i]);
  q->inputs[i] = q->inputs[--q->input_count];
  q->raw = false;
  return NULL;
}

error TRITONSERVER_InferenceRequestAppendInputDataWithHostPolicy(
    request *q, const char *name, const void *data, size_t size, int memory, int64_t id, const char *policy) {
  NEED(q, "request");
  uint32_t i = find_input(q, name);
  if (i == q->input_count) return no_input(q, name);
  if (memory == MEMORY_GPU) return new_error(CODE_UNSUPPORTED, "input '%s' must be in memory of the CPU", name);
  if (size > 0) NEED(data, "data of the input");
  client_input *in = &q->inputs[i];
  if (size > most_bytes - in->size)
    return new_error(CODE_INVALID_ARG, "input '%s' has more than %llu bytes", name, (unsigned long long)most_bytes);
  in->size += size;
  in->pieces = must_have(realloc(in->pieces, (in->piece_count + 1) * sizeof *in->pieces));
  in->pieces[in->piece_count++] = (piece){data, size};
  return NULL;
}

error TRITONSERVER_InferenceRequestAppendInputData(
    request *q, const char *name, const void *data, size_t size, int memory, int64_t id) {
  NEED(q, "request");
  return TRITONSERVER_InferenceRequestAppendInputDataWithHostPolicy(q, name, data, size, memory, id, NULL);
}

error TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes(
    request *q, const char *name, const void *data, TRITONSERVER_BufferAttributes *a) {
  NEED(q, "request");
  NEED(a, "buffer attributes");
  return TRITONSERVER_InferenceRequestAppendInputData(q, name, data, a->size, a->memory, a->memory_id);
}

error TRITONSERVER_InferenceRequestRemoveAllInputData(request *q, const char *name) {
  NEED(q, "request");
  uint32_t i = find_input(q, name);
  if (i == q->input_count) return no_input(q, name);
  q->inputs[i].piece_count = 0;
  q->inputs[i].size = 0;
  return NULL;
}

error TRITONSERVER_InferenceRequestAddRequestedOutput(request *q, const char *name) {
  NEED(q, "request");
  NEED(name, "name of the output");
  for (uint32_t i = 0; i < q->output_count; i++)
    if (strcmp(q->outputs[i], name) == 0)
      return new_error(CODE_INVALID_ARG, "[request id: %s] output '%s' already exists in request", id_of(q), name);
  q->outputs = must_have(realloc(q->outputs, (q->output_count + 1) * sizeof *q->outputs));
  q->outputs[q->output_count++] = copy_text(name);
  return NULL;
}

error TRITONSERVER_InferenceRequestRemoveRequestedOutput(request *q, const char *name) {
  NEED(q, "request");
  NEED(name, "name of the output");
  for (uint32_t i = 0; i < q->output_count; i++) {
    if (strcmp(q->outputs[i], name) != 0) continue;
    free(q->outputs[i]);
    q->outputs[i] = q->outputs[--q->output_count];
    break;
  }
  return NULL;
}

// add_parameter adds a parameter of a type, without its value.
static TRITONSERVER_Parameter *add_parameter(request *q, const char *name, int type) {
  q->parameters = must_have(realloc(q->parameters, (q->parameter_count + 1) * sizeof *q->parameters));
  TRITONSERVER_Parameter *p = &q->parameters[q->parameter_count++];
  memset(p, 0, sizeof *p);
  p->name = copy_text(name);
  p->type = type;
  return p;
}

error TRITONSERVER_InferenceRequestSetStringParameter(request *q, const char *name, const char *value) {
  NEED(q, "request");
  NEED(name, "name of the parameter");
  NEED(value, "value of the parameter");
  TRITONSERVER_Parameter *p = add_parameter(q, name, PARAMETER_STRING);
  p->text = copy_text(value);
  p->size = strlen(value);
  return NULL;
}

error TRITONSERVER_InferenceRequestSetIntParameter(request *q, const char *name, int64_t value) {
  NEED(q, "request");
  NEED(name, "name of the parameter");
  add_parameter(q, name, PARAMETER_INT)->integer = value;
  return NULL;
}

error TRITONSERVER_InferenceRequestSetBoolParameter(request *q, const char *name, bool value) {
  NEED(q, "request");
  NEED(name, "name of the parameter");
  add_parameter(q, name, PARAMETER_BOOL)->flag = value;
  return NULL;
}

error TRITONSERVER_InferenceRequestSetDoubleParameter(request *q, const char *name, double value) {
  NEED(q, "request");
  NEED(name, "name of the parameter");
  add_parameter(q, name, PARAMETER_DOUBLE)->real = value;
  return NULL;
}

error TRITONSERVER_InferenceRequestSetReleaseCallback(request *q, release_function release, void *userp) {
  NEED(q, "request");
  q->release = release;
  q->release_userp = userp;
  return NULL;
}

error TRITONSERVER_InferenceRequestSetResponseCallback(request *q, TRITONSERVER_ResponseAllocator *allocator,
    void *allocator_userp, response_function respond, void *userp) {
  NEED(q, "request");
  NEED(allocator, "allocator");
  q->allocator = allocator;
  q->allocator_userp = allocator_userp;
  q->respond = respond;
  q->respond_userp = userp;
  return NULL;
}

error TRITONSERVER_InferenceRequestCancel(request *q) {
  NEED(q, "request");
  if (q->sent == 0)
    return new_error(CODE_INTERNAL,
        "It is not possible to cancel an inference request before calling TRITONSERVER_InferAsync.");
  q->cancelled = true;
  host_cancel(q->sent);
  return NULL;
}

error TRITONSERVER_InferenceRequestIsCancelled(request *q, bool *cancelled) {
  NEED(q, "request");
  if (q->sent == 0)
    return new_error(CODE_INTERNAL,
        "It is not possible to query cancellation status before calling TRITONSERVER_InferAsync.");
  *cancelled = q->cancelled;
  return NULL;
}

error TRITONSERVER_ServerInferAsync(TRITONSERVER_Server *s, request *q, TRITONSERVER_InferenceTrace *trace) {
  NEED(s, "server");
  NEED(q, "request");
  if (q->respond == NULL || q->allocator == NULL || q->release == NULL)
    return new_error(CODE_INVALID_ARG, "a request needs functions for its responses and for its release");
  q->cancelled = false;  // it may have been sent before
  q->trace = trace;
  bool call = trace != NULL && trace->kind == TRACE_OF_CALL;
  error e = host_infer(s, q, nt_answering);  // q may be gone, and the trace of a program too
  if (call) {                                // as in Triton, it is taken even if the request is refused
    clear_trace(trace);
    free(trace);
  }
  return e;
}

error TRITONSERVER_ServerIsLive(TRITONSERVER_Server *s, bool *live) {
  NEED(s, "server");
  *live = host_live(s);
  return NULL;
}

error TRITONSERVER_ServerIsReady(TRITONSERVER_Server *s, bool *ready) {
  NEED(s, "server");
  *ready = host_ready(s);
  return NULL;
}

error TRITONSERVER_ServerModelIsReady(TRITONSERVER_Server *s, const char *name, int64_t version, bool *ready) {
  NEED(s, "server");
  NEED(name, "name of the model");
  return host_model_ready(s, name, version, ready);
}

error TRITONSERVER_ServerModelTransactionProperties(
    TRITONSERVER_Server *s, const char *name, int64_t version, uint32_t *flags, void **unused) {
  NEED(s, "server");
  NEED(name, "name of the model");
  if (unused != NULL) *unused = NULL;
  bool decoupled = false;
  error e = host_model_decoupled(s, name, version, &decoupled);
  *flags = decoupled ? MODEL_DECOUPLED : MODEL_ONE_TO_ONE;
  return e;
}

error TRITONSERVER_ServerLoadModelWithParameters(
    TRITONSERVER_Server *s, const char *name, const TRITONSERVER_Parameter **parameters, uint64_t count) {
  NEED(s, "server");
  NEED(name, "name of the model");
  return host_load(s, name, parameters, count);
}

error TRITONSERVER_ServerLoadModel(TRITONSERVER_Server *s, const char *name) {
  return TRITONSERVER_ServerLoadModelWithParameters(s, name, NULL, 0);
}

error TRITONSERVER_ServerUnloadModel(TRITONSERVER_Server *s, const char *name) {
  NEED(s, "server");
  NEED(name, "name of the model");
  return host_unload(s, name, false);
}

error TRITONSERVER_ServerUnloadModelAndDependents(TRITONSERVER_Server *s, const char *name) {
  NEED(s, "server");
  NEED(name, "name of the model");
  return host_unload(s, name, true);
}
