// Traces: what a backend reports about the requests that it executes.

#include <stdlib.h>

#include "client.h"
#include "host.h"
#include "object.h"

typedef TRITONSERVER_InferenceTrace trace;

// no_number is the error for what only the server knows of a child.
static error no_number(const char *what) {
  return new_error(CODE_UNSUPPORTED, "the %s of a child trace is not known before its request is sent", what);
}

error TRITONSERVER_InferenceTraceId(trace *t, uint64_t *id) {
  NEED(t, "trace");
  if (t->child) return no_number("number");
  *id = t->number;
  return NULL;
}

error TRITONSERVER_InferenceTraceModelName(trace *t, const char **name) {
  NEED(t, "trace");
  if (t->child) return no_number("model");
  *name = the_model->name;
  return NULL;
}

error TRITONSERVER_InferenceTraceModelVersion(trace *t, int64_t *version) {
  NEED(t, "trace");
  if (t->child) return no_number("model");
  *version = (int64_t)the_model->version;
  return NULL;
}

error TRITONSERVER_InferenceTraceRequestId(trace *t, const char **id) {
  NEED(t, "trace");
  if (t->child) return no_number("request");
  *id = t->id;
  return NULL;
}

// The context is that of OpenTelemetry, which the traces of files do not have.
error TRITONSERVER_InferenceTraceContext(trace *t, const char **context) {
  NEED(t, "trace");
  *context = t->context == NULL ? "" : t->context;
  return NULL;
}

error TRITONSERVER_InferenceTraceReportActivity(trace *t, uint64_t time, const char *name) {
  NEED(t, "trace");
  NEED(name, "name of the activity");
  if (t->child) return new_error(CODE_UNSUPPORTED, "an activity is reported to the trace of the request itself");
  host_activity(t->handle, time, name);
  return NULL;
}

// TRITONSERVER_ServerInferAsync takes the child, otherwise the caller deletes it.
error TRITONSERVER_InferenceTraceSpawnChildTrace(trace *t, trace **child) {
  NEED(t, "trace");
  *child = must_have(calloc(1, sizeof **child));
  (*child)->handle = t->handle;
  (*child)->child = true;
  return NULL;
}

error TRITONSERVER_InferenceTraceDelete(trace *t) {
  if (t != NULL && t->child) free(t);
  return NULL;
}
