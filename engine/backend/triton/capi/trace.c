// Traces: what a backend reports about the requests that it executes, and what a program gets about its requests.

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "client.h"
#include "host.h"
#include "shim.h"

typedef TRITONSERVER_InferenceTrace trace;

void clear_trace(trace *t) {
  free(t->context);
  if (t->kind == TRACE_OF_BACKEND) return;
  free(t->model);
  free(t->id);
}

trace *nt_new_trace(const trace *like, uint64_t parent) {
  static _Atomic uint64_t last;
  trace *t = must_have(calloc(1, sizeof *t));
  t->kind = TRACE_OF_PROGRAM;
  t->number = ++last;
  t->parent = parent;
  t->version = -1;
  t->level = like->level & TRACE_TENSORS;
  if (like->level & (TRACE_MIN | TRACE_MAX | TRACE_TIMESTAMPS)) t->level |= TRACE_TIMESTAMPS;
  t->activity = like->activity;
  t->tensor = like->tensor;
  t->release = like->release;
  t->userp = like->userp;
  return t;
}

void nt_name_trace(trace *t, const char *model, int64_t version, const char *id) {
  if (t->model == NULL) {  // otherwise the program may have the texts already
    t->model = copy_text(model);
    t->id = copy_text(id);
  }
  t->version = version;
}

void nt_report(trace *t, int activity, uint64_t time) {
  if (t->activity != NULL && t->level & TRACE_TIMESTAMPS) t->activity(t, activity, time, t->userp);
}

void nt_report_tensor(trace *t, int activity, const char *name, int type, const void *data, size_t size,
    const int64_t *shape, uint64_t dims) {
  if (t->tensor != NULL && t->level & TRACE_TENSORS)
    t->tensor(t, activity, name, type, data, size, shape, dims, MEMORY_CPU, 0, t->userp);
}

void nt_release_trace(trace *t) { t->release(t, t->userp); }

uint64_t nt_monotonic(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

// contexts guards the contexts of all traces of programs, which report activities from any thread.
static pthread_mutex_t contexts = PTHREAD_MUTEX_INITIALIZER;

static void set_context(trace *t, char *context) {
  free(t->context);
  t->context = context;
}

void nt_report_custom(trace *t, uint64_t time, const char *name) {
  if (!(t->level & TRACE_TIMESTAMPS)) return;
  pthread_mutex_lock(&contexts);
  set_context(t, host_context(t->context, time, name));
  pthread_mutex_unlock(&contexts);
  nt_report(t, ACTIVITY_CUSTOM, time);
}

// unknown is the error for what only the server knows.
static error unknown(const char *what) {
  return new_error(CODE_UNSUPPORTED, "the %s of this trace is not known here", what);
}

error TRITONSERVER_InferenceTraceId(trace *t, uint64_t *id) {
  NEED(t, "trace");
  if (t->kind == TRACE_OF_CALL) return unknown("number");
  *id = t->number;
  return NULL;
}

error TRITONSERVER_InferenceTraceParentId(trace *t, uint64_t *id) {
  NEED(t, "trace");
  if (t->kind == TRACE_OF_BACKEND) return unknown("parent");
  *id = t->parent;
  return NULL;
}

error TRITONSERVER_InferenceTraceModelName(trace *t, const char **name) {
  NEED(t, "trace");
  if (t->kind == TRACE_OF_CALL) return unknown("model");
  *name = t->model == NULL ? "" : t->model;
  return NULL;
}

error TRITONSERVER_InferenceTraceModelVersion(trace *t, int64_t *version) {
  NEED(t, "trace");
  if (t->kind == TRACE_OF_CALL) return unknown("model");
  *version = t->version;
  return NULL;
}

error TRITONSERVER_InferenceTraceRequestId(trace *t, const char **id) {
  NEED(t, "trace");
  if (t->kind == TRACE_OF_CALL) return unknown("request");
  *id = t->id == NULL ? "" : t->id;
  return NULL;
}

error TRITONSERVER_InferenceTraceContext(trace *t, const char **context) {
  NEED(t, "trace");
  *context = t->context == NULL ? "" : t->context;
  return NULL;
}

error TRITONSERVER_InferenceTraceSetContext(trace *t, const char *context) {
  NEED(t, "trace");
  pthread_mutex_lock(&contexts);
  set_context(t, copy_text(context));
  pthread_mutex_unlock(&contexts);
  return NULL;
}

error TRITONSERVER_InferenceTraceReportActivity(trace *t, uint64_t time, const char *name) {
  NEED(t, "trace");
  NEED(name, "name of the activity");
  if (t->kind == TRACE_OF_CALL)
    return new_error(CODE_UNSUPPORTED, "an activity is reported to the trace of the request itself");
  if (t->kind == TRACE_OF_PROGRAM)
    nt_report_custom(t, time, name);
  else
    host_activity(t->handle, time, name);
  return NULL;
}

// TRITONSERVER_ServerInferAsync takes the child, otherwise the caller deletes it.
error TRITONSERVER_InferenceTraceSpawnChildTrace(trace *t, trace **child) {
  NEED(t, "trace");
  if (t->kind == TRACE_OF_PROGRAM) {
    *child = nt_new_trace(t, t->number);
    return NULL;
  }
  *child = must_have(calloc(1, sizeof **child));
  (*child)->kind = TRACE_OF_CALL;
  (*child)->handle = t->handle;
  (*child)->parent = t->kind == TRACE_OF_CALL ? 0 : t->number;
  return NULL;
}

// A backend does not have the trace of the request that it executes.
error TRITONSERVER_InferenceTraceDelete(trace *t) {
  if (t == NULL || t->kind == TRACE_OF_BACKEND) return NULL;
  clear_trace(t);
  free(t);
  return NULL;
}
