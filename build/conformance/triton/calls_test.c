// A backend that asks the model "plain" for each answer and counts its requests in a metric. A parameter of a request
// makes it control another model.

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "triton.h"

typedef struct TRITONSERVER_Server Server;
typedef struct TRITONSERVER_InferenceRequest Call;
typedef struct TRITONSERVER_InferenceResponse Answer;
typedef struct TRITONSERVER_ResponseAllocator Allocator;
typedef struct TRITONSERVER_MetricFamily Family;
typedef struct TRITONSERVER_Metric Metric;
typedef struct TRITONSERVER_MetricArgs MetricArgs;
typedef struct TRITONSERVER_Parameter Parameter;

Error *TRITONBACKEND_ModelServer(Model *, Server **);
Error *TRITONSERVER_ResponseAllocatorNew(Allocator **, void *allocate, void *release, void *start);
Error *TRITONSERVER_ResponseAllocatorDelete(Allocator *);
Error *TRITONSERVER_InferenceRequestNew(Call **, Server *, const char *model, int64_t version);
Error *TRITONSERVER_InferenceRequestDelete(Call *);
Error *TRITONSERVER_InferenceRequestAddInput(Call *, const char *, int type, const int64_t *shape, uint64_t dims);
Error *TRITONSERVER_InferenceRequestAppendInputData(Call *, const char *, const void *, size_t, int, int64_t);
Error *TRITONSERVER_InferenceRequestSetReleaseCallback(Call *, void *release, void *userp);
Error *TRITONSERVER_InferenceRequestSetResponseCallback(Call *, Allocator *, void *, void *respond, void *userp);
Error *TRITONSERVER_InferenceRequestSetId(Call *, const char *);
Error *TRITONSERVER_InferenceRequestId(Call *, const char **);
Error *TRITONSERVER_InferenceRequestCancel(Call *);
Error *TRITONSERVER_ServerInferAsync(Server *, Call *, void *trace);
Error *TRITONSERVER_ServerLoadModel(Server *, const char *);
Error *TRITONSERVER_ServerUnloadModel(Server *, const char *);
Error *TRITONSERVER_ServerUnloadModelAndDependents(Server *, const char *);
Error *TRITONSERVER_ServerModelIsReady(Server *, const char *, int64_t, bool *);
Error *TRITONSERVER_InferenceResponseError(Answer *);
Error *TRITONSERVER_InferenceResponseDelete(Answer *);
Error *TRITONSERVER_InferenceResponseOutput(Answer *, uint32_t, const char **name, int *type, const int64_t **shape,
    uint64_t *dims, const void **data, size_t *size, int *memory, int64_t *id, void **userp);
Error *TRITONSERVER_MetricFamilyNew(Family **, int kind, const char *name, const char *description);
Error *TRITONSERVER_MetricFamilyDelete(Family *);
Error *TRITONSERVER_MetricNew(Metric **, Family *, const Parameter **labels, uint64_t count);
Error *TRITONSERVER_MetricNewWithArgs(Metric **, Family *, const Parameter **labels, uint64_t count, const MetricArgs *);
Error *TRITONSERVER_MetricArgsNew(MetricArgs **);
Error *TRITONSERVER_MetricArgsSetHistogram(MetricArgs *, const double *buckets, uint64_t count);
Error *TRITONSERVER_MetricArgsDelete(MetricArgs *);
Error *TRITONSERVER_MetricObserve(Metric *, double);
Error *TRITONSERVER_MetricDelete(Metric *);
Error *TRITONSERVER_MetricIncrement(Metric *, double);
Error *TRITONSERVER_MetricSet(Metric *, double);
Error *TRITONSERVER_MetricValue(Metric *, double *);
Error *TRITONSERVER_ServerNew(void *, void *);
int TRITONSERVER_ErrorCode(Error *);

typedef struct {
  Server *server;
  Allocator *allocator;
  Family *family, *gauges, *histograms;
  Metric *metric, *gauge, *histogram;
} state;

typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  Answer *answer;
  bool done;
} waiter;

// UNSUPPORTED is the code of an error.
enum { UNSUPPORTED = 5 };

// From the number GPU on, the allocator says that its buffers are in memory of a GPU.
enum { GPU = 1000 };

static Error *allocate(Allocator *a, const char *name, size_t size, int memory, int64_t id, void *userp, void **buffer,
    void **buffer_userp, int *actual, int64_t *actual_id) {
  *buffer = malloc(size);
  (*(int *)userp)++;
  *buffer_userp = userp;
  *actual = *(int *)userp > GPU ? 2 : 0;
  *actual_id = 0;
  return NULL;
}

static Error *give_back(Allocator *a, void *buffer, void *userp, size_t size, int memory, int64_t id) {
  free(buffer);
  (*(int *)userp)--;
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

// unlimited makes a histogram whose last bucket is infinite, and a gauge of this instance infinite and NaN.
static Error *unlimited(state *s) {
  const double values[] = {INFINITY, -INFINITY, NAN}, buckets[] = {2, INFINITY};
  double got = 0;
  char name[64];
  Family *family = NULL;
  Metric *m = NULL;
  snprintf(name, sizeof name, "calls_test_%d_%llu", getpid(), (unsigned long long)(uintptr_t)s);
  Error *e = TRITONSERVER_MetricFamilyNew(&family, 1, name, "unlimited");
  if (e == NULL) e = TRITONSERVER_MetricNew(&m, family, NULL, 0);
  for (int k = 0; k < 3 && e == NULL; k++) {
    e = TRITONSERVER_MetricSet(m, values[k]);
    if (e == NULL) e = TRITONSERVER_MetricValue(m, &got);
    if (e == NULL && got != values[k] && !(isnan(got) && isnan(values[k])))
      e = TRITONSERVER_ErrorNew(1, "the gauge has another value");
  }
  TRITONSERVER_MetricDelete(m);
  TRITONSERVER_MetricFamilyDelete(family);
  MetricArgs *a;
  TRITONSERVER_MetricArgsNew(&a);
  TRITONSERVER_MetricArgsSetHistogram(a, buckets, 2);
  if (e == NULL) e = TRITONSERVER_MetricFamilyNew(&s->histograms, 2, "calls_test_sizes", "sizes");
  if (e == NULL) e = TRITONSERVER_MetricNewWithArgs(&s->histogram, s->histograms, NULL, 0, a);
  if (e == NULL) e = TRITONSERVER_MetricObserve(s->histogram, 3);
  TRITONSERVER_MetricArgsDelete(a);
  return e;
}

Error *TRITONBACKEND_ModelInstanceInitialize(Instance *i) {
  Model *m;
  state *s = calloc(1, sizeof *s);
  TRITONBACKEND_ModelInstanceModel(i, &m);
  TRITONBACKEND_ModelServer(m, &s->server);
  TRITONSERVER_ResponseAllocatorNew(&s->allocator, allocate, give_back, NULL);
  Error *e = TRITONSERVER_MetricFamilyNew(&s->family, 0, "calls_test_total", "calls");
  if (e == NULL) e = TRITONSERVER_MetricNew(&s->metric, s->family, NULL, 0);
  if (e == NULL) e = TRITONSERVER_MetricFamilyNew(&s->gauges, 1, "calls_test_last", "half of the last first value");
  if (e == NULL) e = TRITONSERVER_MetricNew(&s->gauge, s->gauges, NULL, 0);
  if (e == NULL) e = unlimited(s);
  if (e == NULL) TRITONBACKEND_ModelInstanceSetState(i, s);
  return e;
}

Error *TRITONBACKEND_ModelInstanceFinalize(Instance *i) {
  state *s;
  TRITONBACKEND_ModelInstanceState(i, (void **)&s);
  TRITONSERVER_MetricDelete(s->histogram);
  TRITONSERVER_MetricFamilyDelete(s->histograms);
  TRITONSERVER_MetricDelete(s->gauge);
  TRITONSERVER_MetricFamilyDelete(s->gauges);
  TRITONSERVER_MetricDelete(s->metric);
  TRITONSERVER_MetricFamilyDelete(s->family);
  TRITONSERVER_ResponseAllocatorDelete(s->allocator);
  free(s);
  return NULL;
}

// ask sends the input of a request to the model "plain", or to one that does not exist, and waits for the answer.
static Error *ask(state *s, Request *q, waiter *w, bool exists, int *buffers_in_use) {
  Input *in;
  Call *c;
  const char *name;
  const int64_t *shape;
  const void *data;
  uint32_t dims, buffers;
  uint64_t size;
  int64_t id;
  int type, memory;
  TRITONBACKEND_RequestInputByIndex(q, 0, &in);
  TRITONBACKEND_InputProperties(in, &name, &type, &shape, &dims, &size, &buffers);
  TRITONBACKEND_InputBuffer(in, 0, &data, &size, &memory, &id);
  TRITONSERVER_InferenceRequestNew(&c, s->server, exists ? "plain" : "nobody", -1);
  TRITONSERVER_InferenceRequestAddInput(c, "IN", type, shape, dims);
  TRITONSERVER_InferenceRequestAppendInputData(c, "IN", data, size / 2, 0, 0);
  TRITONSERVER_InferenceRequestAppendInputData(c, "IN", (const char *)data + size / 2, size - size / 2, 0, 0);
  const char *call_id;
  TRITONSERVER_InferenceRequestSetId(c, "one");
  TRITONSERVER_InferenceRequestId(c, &call_id);
  TRITONSERVER_InferenceRequestSetId(c, call_id);
  TRITONSERVER_InferenceRequestId(c, &call_id);
  if (strcmp(call_id, "one") != 0) return TRITONSERVER_ErrorNew(1, "the ID of the request has changed");
  Error *early = TRITONSERVER_InferenceRequestCancel(c);
  if (early == NULL) return TRITONSERVER_ErrorNew(1, "a request was cancelled before it was sent");
  TRITONSERVER_ErrorDelete(early);
  TRITONSERVER_InferenceRequestSetReleaseCallback(c, released, NULL);
  TRITONSERVER_InferenceRequestSetResponseCallback(c, s->allocator, buffers_in_use, answered, w);
  Error *e = TRITONSERVER_ServerInferAsync(s->server, c, NULL);
  if (e != NULL) return e;
  pthread_mutex_lock(&w->lock);
  while (!w->done) pthread_cond_wait(&w->changed, &w->lock);
  pthread_mutex_unlock(&w->lock);
  return w->answer == NULL ? NULL : TRITONSERVER_InferenceResponseError(w->answer);
}

// gauge sets the gauge to half of a value, in two steps. The response says what it is then.
static Error *gauge(Metric *m, double value, Response *r) {
  double got = 0;
  Error *e = TRITONSERVER_MetricSet(m, value);
  if (e == NULL) e = TRITONSERVER_MetricIncrement(m, -value / 2);
  if (e == NULL) e = TRITONSERVER_MetricValue(m, &got);
  TRITONBACKEND_ResponseSetDoubleParameter(r, "gauge", got);
  return e;
}

// control does what a parameter of a request says to the model that is its value: "load", "unload", "unload_all" or
// "ready". The response says whether the model is ready afterwards. It returns false if there is no such parameter.
static bool control(state *s, Request *q, Response *r, Error **e) {
  uint32_t count;
  const char *what;
  const void *model;
  int type;
  bool ready = false;
  TRITONBACKEND_RequestParameterCount(q, &count);
  if (count == 0) return false;
  TRITONBACKEND_RequestParameter(q, 0, &what, &type, &model);
  if (strcmp(what, "load") == 0) *e = TRITONSERVER_ServerLoadModel(s->server, model);
  if (strcmp(what, "unload") == 0) *e = TRITONSERVER_ServerUnloadModel(s->server, model);
  if (strcmp(what, "unload_all") == 0) *e = TRITONSERVER_ServerUnloadModelAndDependents(s->server, model);
  if (*e == NULL) *e = TRITONSERVER_ServerModelIsReady(s->server, model, -1, &ready);
  TRITONBACKEND_ResponseSetBoolParameter(r, "ready", ready);
  return true;
}

static Error *reply(state *s, Request *q, Response *r) {
  Output *out;
  const char *name;
  const int64_t *shape;
  const void *data;
  void *to, *userp;
  uint64_t dims;
  size_t size;
  int64_t id;
  int type, memory;
  bool ready = false;
  waiter w = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, false};
  waiter none = w, refused = w;
  int in_use = 0, in_gpu = GPU;
  TRITONSERVER_ServerModelIsReady(s->server, "plain", -1, &ready);
  if (!ready) return TRITONSERVER_ErrorNew(1, "plain is not ready");
  if (ask(s, q, &none, false, &in_use) == NULL) return TRITONSERVER_ErrorNew(1, "a model that does not exist answered");
  TRITONSERVER_InferenceResponseDelete(none.answer);
  if (ask(s, q, &refused, true, &in_gpu) == NULL) return TRITONSERVER_ErrorNew(1, "an output is in a GPU");
  TRITONSERVER_InferenceResponseDelete(refused.answer);
  Error *e = ask(s, q, &w, true, &in_use);
  if (e != NULL) return TRITONSERVER_ErrorNew(1, "plain failed");
  TRITONSERVER_InferenceResponseOutput(w.answer, 0, &name, &type, &shape, &dims, &data, &size, &memory, &id, &userp);
  TRITONBACKEND_ResponseOutput(r, &out, "OUT", type, shape, (uint32_t)dims);
  TRITONBACKEND_OutputBuffer(out, &to, size, &memory, &id);
  memcpy(to, data, size);
  TRITONSERVER_InferenceResponseDelete(w.answer);
  if (in_use != 0 || in_gpu != GPU) return TRITONSERVER_ErrorNew(1, "buffers are left");
  Error *missing = TRITONSERVER_ServerNew(NULL, NULL);
  if (missing == NULL) return TRITONSERVER_ErrorNew(1, "a server was made");
  if (TRITONSERVER_ErrorCode(missing) != UNSUPPORTED ||
      strstr(TRITONSERVER_ErrorMessage(missing), "TRITONSERVER_ServerNew") == NULL)
    return missing;
  TRITONSERVER_ErrorDelete(missing);
  TRITONSERVER_MetricIncrement(s->metric, 1);
  return gauge(s->gauge, first_value(q), r);
}

Error *TRITONBACKEND_ModelInstanceExecute(Instance *i, Request **requests, uint32_t count) {
  state *s;
  TRITONBACKEND_ModelInstanceState(i, (void **)&s);
  for (uint32_t k = 0; k < count; k++) {
    Response *r;
    TRITONBACKEND_ResponseNew(&r, requests[k]);
    Error *e = NULL;
    if (control(s, requests[k], r, &e)) {
      if (e == NULL) copy(requests[k], r, "OUT");
    } else {
      e = reply(s, requests[k], r);
    }
    TRITONBACKEND_ResponseSend(r, FINAL, e);
    if (e != NULL) TRITONSERVER_ErrorDelete(e);
    TRITONBACKEND_RequestRelease(requests[k], ALL);
  }
  return NULL;
}
