// A backend that reports activities to the trace of a request, and makes a call in this trace. The call asks the model
// "plain" with a raw input, whose shape and type that model knows.

#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "triton.h"

typedef struct TRITONSERVER_Server Server;
typedef struct TRITONSERVER_InferenceRequest Call;
typedef struct TRITONSERVER_InferenceResponse Answer;
typedef struct TRITONSERVER_ResponseAllocator Allocator;
typedef struct TRITONSERVER_InferenceTrace Trace;

Error *TRITONBACKEND_ModelServer(Model *, Server **);
Error *TRITONBACKEND_RequestTrace(Request *, Trace **);
Error *TRITONSERVER_InferenceTraceId(Trace *, uint64_t *);
Error *TRITONSERVER_InferenceTraceModelName(Trace *, const char **);
Error *TRITONSERVER_InferenceTraceModelVersion(Trace *, int64_t *);
Error *TRITONSERVER_InferenceTraceRequestId(Trace *, const char **);
Error *TRITONSERVER_InferenceTraceContext(Trace *, const char **);
Error *TRITONSERVER_InferenceTraceParentId(Trace *, uint64_t *);
Error *TRITONSERVER_InferenceTraceSetContext(Trace *, const char *);
Error *TRITONSERVER_InferenceTraceReportActivity(Trace *, uint64_t time, const char *name);
Error *TRITONSERVER_InferenceTraceSpawnChildTrace(Trace *, Trace **);
Error *TRITONSERVER_InferenceTraceDelete(Trace *);
bool TRITONSERVER_LogIsEnabled(int level);
Error *TRITONSERVER_ResponseAllocatorNew(Allocator **, void *allocate, void *release, void *start);
Error *TRITONSERVER_ResponseAllocatorDelete(Allocator *);
Error *TRITONSERVER_InferenceRequestNew(Call **, Server *, const char *model, int64_t version);
Error *TRITONSERVER_InferenceRequestDelete(Call *);
Error *TRITONSERVER_InferenceRequestAddInput(Call *, const char *, int type, const int64_t *shape, uint64_t dims);
Error *TRITONSERVER_InferenceRequestAddRawInput(Call *, const char *);
Error *TRITONSERVER_InferenceRequestAppendInputData(Call *, const char *, const void *, size_t, int, int64_t);
Error *TRITONSERVER_InferenceRequestSetReleaseCallback(Call *, void *release, void *userp);
Error *TRITONSERVER_InferenceRequestSetResponseCallback(Call *, Allocator *, void *, void *respond, void *userp);
Error *TRITONSERVER_ServerInferAsync(Server *, Call *, Trace *);
Error *TRITONSERVER_InferenceResponseError(Answer *);
Error *TRITONSERVER_InferenceResponseDelete(Answer *);
Error *TRITONSERVER_InferenceResponseOutput(Answer *, uint32_t, const char **name, int *type, const int64_t **shape,
    uint64_t *dims, const void **data, size_t *size, int *memory, int64_t *id, void **userp);

enum { VERBOSE = 3 };

typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  Answer *answer;
  bool done;
} waiter;

static Error *allocate(Allocator *a, const char *name, size_t size, int memory, int64_t id, void *userp, void **buffer,
    void **buffer_userp, int *actual, int64_t *actual_id) {
  *buffer = malloc(size);
  *actual = 0;
  *actual_id = 0;
  return NULL;
}

static Error *give_back(Allocator *a, void *buffer, void *userp, size_t size, int memory, int64_t id) {
  free(buffer);
  return NULL;
}

static void released(Call *c, uint32_t flags, void *userp) { TRITONSERVER_InferenceRequestDelete(c); }

static void answered(Answer *a, uint32_t flags, void *userp) {
  waiter *w = userp;
  pthread_mutex_lock(&w->lock);
  if (a != NULL) w->answer = a;
  w->done = (flags & FINAL) != 0;
  pthread_cond_signal(&w->changed);
  pthread_mutex_unlock(&w->lock);
}

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static Error *same(bool is, const char *what) { return is ? NULL : TRITONSERVER_ErrorNew(1, what); }

// follow reports activities and returns the trace for a call, NULL if the request is not traced.
static Error *follow(Trace *t, Trace **child) {
  const char *name, *id, *context;
  uint64_t number;
  int64_t version;
  *child = NULL;
  if (t == NULL) return NULL;
  TRITONSERVER_InferenceTraceReportActivity(t, now(), "OWN_START");
  TRITONSERVER_InferenceTraceId(t, &number);
  TRITONSERVER_InferenceTraceModelName(t, &name);
  TRITONSERVER_InferenceTraceModelVersion(t, &version);
  TRITONSERVER_InferenceTraceRequestId(t, &id);
  TRITONSERVER_InferenceTraceContext(t, &context);
  char line[200];
  snprintf(line, sizeof line, "trace %d of %s %d, request %s, context '%s'", (int)number, name, (int)version, id,
      context);
  TRITONSERVER_LogMessage(0, __FILE__, __LINE__, line);
  Trace *unused;
  uint64_t parent = 0;
  TRITONSERVER_InferenceTraceSpawnChildTrace(t, &unused);
  TRITONSERVER_InferenceTraceParentId(unused, &parent);
  TRITONSERVER_InferenceTraceSetContext(unused, "the child's");
  TRITONSERVER_InferenceTraceDelete(unused);
  TRITONSERVER_InferenceTraceSetContext(t, "first");
  TRITONSERVER_InferenceTraceSetContext(t, "mine");
  TRITONSERVER_InferenceTraceContext(t, &context);
  Error *unknown = TRITONSERVER_InferenceTraceParentId(t, &number);
  if (parent != number || unknown == NULL || strcmp(context, "mine") != 0)
    return TRITONSERVER_ErrorNew(1, "the trace has another parent or context");
  TRITONSERVER_ErrorDelete(unknown);
  return TRITONSERVER_InferenceTraceSpawnChildTrace(t, child);
}

// call asks "plain" with the data of the request's input.
static Error *call(Instance *i, Request *q, Trace *child, waiter *w, Allocator *a) {
  Model *m;
  Server *server;
  Input *in;
  Call *c;
  const void *data;
  uint64_t size;
  int64_t id, one = 1;
  int memory;
  TRITONBACKEND_ModelInstanceModel(i, &m);
  TRITONBACKEND_ModelServer(m, &server);
  TRITONBACKEND_RequestInputByIndex(q, 0, &in);
  TRITONBACKEND_InputBuffer(in, 0, &data, &size, &memory, &id);
  TRITONSERVER_InferenceRequestNew(&c, server, "plain", -1);
  TRITONSERVER_InferenceRequestAddInput(c, "OTHER", 11, &one, 1);
  Error *second = TRITONSERVER_InferenceRequestAddRawInput(c, "raw");
  if (second == NULL) return TRITONSERVER_ErrorNew(1, "a raw input was added to another one");
  TRITONSERVER_ErrorDelete(second);
  TRITONSERVER_InferenceRequestDelete(c);
  TRITONSERVER_InferenceRequestNew(&c, server, "plain", -1);
  TRITONSERVER_InferenceRequestAddRawInput(c, "raw");
  TRITONSERVER_InferenceRequestAppendInputData(c, "raw", data, size, 0, 0);
  TRITONSERVER_InferenceRequestSetReleaseCallback(c, released, NULL);
  TRITONSERVER_InferenceRequestSetResponseCallback(c, a, NULL, answered, w);
  Error *e = TRITONSERVER_ServerInferAsync(server, c, child);
  if (e != NULL) return e;
  pthread_mutex_lock(&w->lock);
  while (!w->done) pthread_cond_wait(&w->changed, &w->lock);
  pthread_mutex_unlock(&w->lock);
  Error *failed = TRITONSERVER_InferenceResponseError(w->answer);  // it stays the response's
  return failed == NULL ? NULL : TRITONSERVER_ErrorNew(1, TRITONSERVER_ErrorMessage(failed));
}

static Error *reply(Instance *i, Request *q, Response *r) {
  Trace *t, *child;
  const char *name;
  const int64_t *shape;
  const void *data;
  void *to, *userp;
  uint64_t dims;
  size_t size;
  int64_t id;
  int type, memory;
  Allocator *a;
  Output *out;
  waiter w = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, false};
  TRITONSERVER_LogMessage(VERBOSE, __FILE__, __LINE__, "a verbose line");
  if (TRITONSERVER_LogIsEnabled(VERBOSE)) TRITONSERVER_LogMessage(0, __FILE__, __LINE__, "verbose lines are logged");
  TRITONSERVER_ResponseAllocatorNew(&a, allocate, give_back, NULL);
  TRITONBACKEND_RequestTrace(q, &t);
  Error *e = follow(t, &child);
  if (e == NULL) e = call(i, q, child, &w, a);
  if (e != NULL) return e;
  TRITONSERVER_InferenceResponseOutput(w.answer, 0, &name, &type, &shape, &dims, &data, &size, &memory, &id, &userp);
  TRITONBACKEND_ResponseOutput(r, &out, "OUT", type, shape, (uint32_t)dims);
  TRITONBACKEND_OutputBuffer(out, &to, size, &memory, &id);
  memcpy(to, data, size);
  TRITONSERVER_InferenceResponseDelete(w.answer);
  TRITONSERVER_ResponseAllocatorDelete(a);
  if (t != NULL) TRITONSERVER_InferenceTraceReportActivity(t, now(), "OWN_END");
  return same(type == 11 && dims == 1, "the answer to a raw input has another type or shape");
}

Error *TRITONBACKEND_ModelInstanceExecute(Instance *i, Request **requests, uint32_t count) {
  for (uint32_t k = 0; k < count; k++) {
    Response *r;
    TRITONBACKEND_ResponseNew(&r, requests[k]);
    Error *e = reply(i, requests[k], r);
    TRITONBACKEND_ResponseSend(r, FINAL, e);
    TRITONSERVER_ErrorDelete(e);
    TRITONBACKEND_RequestRelease(requests[k], ALL);
  }
  return NULL;
}
