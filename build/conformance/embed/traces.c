// For test_embed.py. traces REPOSITORY follows requests to the models "one", "steps", "caller", "three" and "labels",
// and prints what the traces of each report. It also asks what else belongs to a response.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "must.h"

typedef TRITONSERVER_InferenceTrace trace;

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static TRITONSERVER_Server *server;
static TRITONSERVER_ResponseAllocator *allocator;

static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool final;
  TRITONSERVER_InferenceResponse *last;
  int open;           // traces that are not released
  uint64_t from, to;  // when the request was sent, and the last activity of the sender's own trace
  uint64_t own;       // its number
  bool counts;        // custom activities are counted and not printed
  int custom;
} state = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER};

// whose prints which trace something is of.
static void whose(trace *t) {
  uint64_t id, parent;
  const char *model, *request;
  int64_t version;
  must(TRITONSERVER_InferenceTraceId(t, &id));
  must(TRITONSERVER_InferenceTraceParentId(t, &parent));
  must(TRITONSERVER_InferenceTraceModelName(t, &model));
  must(TRITONSERVER_InferenceTraceModelVersion(t, &version));
  must(TRITONSERVER_InferenceTraceRequestId(t, &request));
  printf("  %s %d '%s' %s: ", model, (int)version, request,
      id == state.own ? "own" : parent == state.own ? "child" : "other");
}

static void activity(trace *t, TRITONSERVER_InferenceTraceActivity a, uint64_t time, void *userp) {
  uint64_t id;
  const char *context;
  must(TRITONSERVER_InferenceTraceId(t, &id));
  must(TRITONSERVER_InferenceTraceContext(t, &context));
  pthread_mutex_lock(&state.lock);
  if (state.counts && a == TRITONSERVER_TRACE_CUSTOM_ACTIVITY) {
    state.custom++;
    pthread_mutex_unlock(&state.lock);
    return;
  }
  whose(t);
  printf("%s%s", TRITONSERVER_InferenceTraceActivityString(a), userp == &state ? "" : " without its userp");
  if (time < state.from || time > now()) printf(" at a wrong time");
  if (a == TRITONSERVER_TRACE_CUSTOM_ACTIVITY) {
    printf(" %s", context);
  } else if (id == state.own) {
    if (time < state.to) printf(" too early");
    state.to = time;
  }
  printf("\n");
  pthread_mutex_unlock(&state.lock);
}

static void tensor(trace *t, TRITONSERVER_InferenceTraceActivity a, const char *name, TRITONSERVER_DataType type,
    const void *data, size_t size, const int64_t *shape, uint64_t dims, TRITONSERVER_MemoryType memory, int64_t id,
    void *userp) {
  pthread_mutex_lock(&state.lock);
  whose(t);
  printf("%s %s %s [", TRITONSERVER_InferenceTraceActivityString(a), name, TRITONSERVER_DataTypeString(type));
  for (uint64_t i = 0; i < dims; i++) printf("%s%d", i > 0 ? "," : "", (int)shape[i]);
  printf("] %d %s %g\n", (int)size, TRITONSERVER_MemoryTypeString(memory), ((const float *)data)[0]);
  pthread_mutex_unlock(&state.lock);
}

static void released(trace *t, void *userp) {
  pthread_mutex_lock(&state.lock);
  whose(t);
  printf("released\n");
  state.open--;
  pthread_cond_signal(&state.changed);
  pthread_mutex_unlock(&state.lock);
  must(TRITONSERVER_InferenceTraceDelete(t));
}

static error *allocate(TRITONSERVER_ResponseAllocator *a, const char *output, size_t size, TRITONSERVER_MemoryType type,
    int64_t id, void *userp, void **buffer, void **buffer_userp, TRITONSERVER_MemoryType *actual, int64_t *actual_id) {
  if (userp != NULL) printf("  allocate %s %s\n", output, TRITONSERVER_MemoryTypeString(type));
  *buffer = malloc(size);
  *buffer_userp = *buffer;
  *actual = type;
  *actual_id = 0;
  return NULL;
}

static error *query(TRITONSERVER_ResponseAllocator *a, void *userp, const char *output, size_t *size,
    TRITONSERVER_MemoryType *memory, int64_t *id) {
  if (userp == NULL) return NULL;
  printf("  query %s %d %s\n", output, (int)*size, TRITONSERVER_MemoryTypeString(*memory));
  *memory = TRITONSERVER_MEMORY_CPU_PINNED;
  return NULL;
}

static error *attributes(TRITONSERVER_ResponseAllocator *a, const char *output, TRITONSERVER_BufferAttributes *b,
    void *userp, void *buffer_userp) {
  if (userp == NULL) return NULL;
  size_t size;
  TRITONSERVER_MemoryType memory;
  must(TRITONSERVER_BufferAttributesByteSize(b, &size));
  must(TRITONSERVER_BufferAttributesMemoryType(b, &memory));
  printf("  attributes %s %d %s%s\n", output, (int)size, TRITONSERVER_MemoryTypeString(memory),
      buffer_userp == NULL ? " without its userp" : "");
  return NULL;
}

static error *give_back(TRITONSERVER_ResponseAllocator *a, void *buffer, void *buffer_userp, size_t size,
    TRITONSERVER_MemoryType type, int64_t id) {
  free(buffer);
  return NULL;
}

static void done(TRITONSERVER_InferenceRequest *q, const uint32_t flags, void *userp) {}

static void respond(TRITONSERVER_InferenceResponse *r, const uint32_t flags, void *userp) {
  pthread_mutex_lock(&state.lock);
  printf("  response%s\n", flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL ? ", final" : "");
  if (state.last != NULL) must(TRITONSERVER_InferenceResponseDelete(state.last));
  state.last = r;
  state.final = flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL;
  pthread_cond_signal(&state.changed);
  pthread_mutex_unlock(&state.lock);
}

static trace *new_trace(int level, uint64_t parent) {
  trace *t;
  must(TRITONSERVER_InferenceTraceTensorNew(
      &t, (TRITONSERVER_InferenceTraceLevel)level, parent, activity, tensor, released, &state));
  must(TRITONSERVER_InferenceTraceId(t, &state.own));
  return t;
}

static TRITONSERVER_InferenceRequest *new_request(const char *model, const char *input, void *allocates) {
  static const float values[4] = {5, 1, 9, 2};
  const int64_t shape[] = {1, 4};
  TRITONSERVER_InferenceRequest *q;
  must(TRITONSERVER_InferenceRequestNew(&q, server, model, -1));
  must(TRITONSERVER_InferenceRequestSetId(q, "mine"));
  if (input == NULL) {
    must(TRITONSERVER_InferenceRequestAddRawInput(q, "INPUT0"));
    refused("another input", TRITONSERVER_InferenceRequestAddRawInput(q, "IN2"));
    input = "INPUT0";
  } else {
    must(TRITONSERVER_InferenceRequestAddInput(q, input, TRITONSERVER_TYPE_FP32, shape, 2));
  }
  must(TRITONSERVER_InferenceRequestAppendInputData(q, input, values, sizeof values, TRITONSERVER_MEMORY_CPU, 0));
  must(TRITONSERVER_InferenceRequestSetReleaseCallback(q, done, NULL));
  must(TRITONSERVER_InferenceRequestSetResponseCallback(q, allocator, allocates, respond, NULL));
  return q;
}

// send sends a request and waits for its final response, and for the release of its trace and those of its children.
static error *send(TRITONSERVER_InferenceRequest *q, trace *t, int children) {
  state.final = false;
  state.from = now();
  state.to = 0;
  state.open = children + (t != NULL);
  error *e = TRITONSERVER_ServerInferAsync(server, q, t);
  if (e != NULL) return e;
  pthread_mutex_lock(&state.lock);
  while (!state.final || state.open > 0) pthread_cond_wait(&state.changed, &state.lock);
  pthread_mutex_unlock(&state.lock);
  return state.last == NULL ? NULL : TRITONSERVER_InferenceResponseError(state.last);
}

static void forget(TRITONSERVER_InferenceRequest *q) {
  if (state.last != NULL) must(TRITONSERVER_InferenceResponseDelete(state.last));
  state.last = NULL;
  must(TRITONSERVER_InferenceRequestDelete(q));
}

// follow prints what the traces of a request report. children is the number of traces that are not the sender's.
static void follow(const char *model, int level, int children) {
  printf("%s, level %d:\n", model, level);
  TRITONSERVER_InferenceRequest *q = new_request(model, "INPUT0", NULL);
  must(send(q, new_trace(level, 0), children));
  forget(q);
}

// own uses a trace without the server's help.
static void own(void) {
  trace *t, *child;
  uint64_t id, parent;
  const char *context;
  printf("own:\n");
  t = new_trace(TRITONSERVER_TRACE_LEVEL_MAX, 77);
  must(TRITONSERVER_InferenceTraceParentId(t, &parent));
  printf("  parent %d\n", (int)parent);
  state.from = 1;
  must(TRITONSERVER_InferenceTraceReportActivity(t, 1000, "a \"first\" one"));
  must(TRITONSERVER_InferenceTraceReportActivity(t, 2000, "second"));
  must(TRITONSERVER_InferenceTraceSetContext(t, "null"));
  must(TRITONSERVER_InferenceTraceReportActivity(t, 3000, "third"));
  must(TRITONSERVER_InferenceTraceSetContext(t, "{\"traceparent\": \"00-1-2-01\"}"));
  must(TRITONSERVER_InferenceTraceContext(t, &context));
  printf("  context %s\n", context);
  must(TRITONSERVER_InferenceTraceSpawnChildTrace(t, &child));
  must(TRITONSERVER_InferenceTraceId(child, &id));
  must(TRITONSERVER_InferenceTraceParentId(child, &parent));
  printf("  child of own %d, of another number %d\n", parent == state.own, id > state.own);
  must(TRITONSERVER_InferenceTraceDelete(child));
  must(TRITONSERVER_InferenceTraceDelete(t));
  t = new_trace(TRITONSERVER_TRACE_LEVEL_DISABLED, 0);
  must(TRITONSERVER_InferenceTraceReportActivity(t, 1000, "nobody wants it"));
  must(TRITONSERVER_InferenceTraceDelete(t));
  refused("no release", TRITONSERVER_InferenceTraceNew(&t, TRITONSERVER_TRACE_LEVEL_MIN, 0, activity, NULL, NULL));
  refused("no place", TRITONSERVER_InferenceTraceNew(NULL, TRITONSERVER_TRACE_LEVEL_MIN, 0, activity, released, NULL));
  refused("no trace", TRITONSERVER_InferenceTraceParentId(NULL, &id));
}

// others checks what is about requests and responses without traces.
static void others(void) {
  TRITONSERVER_InferenceRequest *q = new_request("labels", "INPUT0", &state);
  const char *label;
  printf("memory:\n");
  must(TRITONSERVER_ResponseAllocatorSetQueryFunction(allocator, query));
  must(TRITONSERVER_ResponseAllocatorSetBufferAttributesFunction(allocator, attributes));
  must(send(q, NULL, 0));
  printf("labels:\n");
  for (size_t i = 0; i < 5; i++) {
    must(TRITONSERVER_InferenceResponseOutputClassificationLabel(state.last, 0, i, &label));
    printf("  %s\n", label == NULL ? "none" : label);
  }
  refused("no output", TRITONSERVER_InferenceResponseOutputClassificationLabel(state.last, 1, 0, &label));
  forget(q);

  q = new_request("one", NULL, NULL);
  must(send(q, NULL, 0));
  must(TRITONSERVER_InferenceResponseOutputClassificationLabel(state.last, 0, 0, &label));
  const char *name;
  TRITONSERVER_DataType type;
  TRITONSERVER_MemoryType memory;
  const int64_t *shape;
  uint64_t dims;
  const void *data;
  size_t size;
  int64_t id;
  void *userp;
  must(TRITONSERVER_InferenceResponseOutput(
      state.last, 0, &name, &type, &shape, &dims, &data, &size, &memory, &id, &userp));
  printf("raw: %s %s [%d,%d] %g, label %s\n", name, TRITONSERVER_DataTypeString(type), (int)shape[0], (int)shape[1],
      ((const float *)data)[2], label == NULL ? "none" : label);
  forget(q);
}

int main(int argc, char **argv) {
  TRITONSERVER_ServerOptions *o;
  must(TRITONSERVER_ServerOptionsNew(&o));
  must(TRITONSERVER_ServerOptionsSetModelRepositoryPath(o, argv[1]));
  must(TRITONSERVER_ServerOptionsSetStrictModelConfig(o, false));
  must(TRITONSERVER_ServerOptionsSetLogInfo(o, false));
  must(TRITONSERVER_ServerNew(&server, o));
  must(TRITONSERVER_ServerOptionsSetModelControlMode(o, TRITONSERVER_MODEL_CONTROL_POLL));
  TRITONSERVER_Server *polls;
  must(TRITONSERVER_ServerNew(&polls, o));
  must(TRITONSERVER_ServerOptionsDelete(o));
  refused("poll", TRITONSERVER_ServerPollModelRepository(server));
  must(TRITONSERVER_ServerPollModelRepository(polls));
  must(TRITONSERVER_ServerDelete(polls));
  must(TRITONSERVER_ResponseAllocatorNew(&allocator, allocate, give_back, NULL));

  follow("one", TRITONSERVER_TRACE_LEVEL_TIMESTAMPS, 0);
  follow("one", TRITONSERVER_TRACE_LEVEL_TIMESTAMPS | TRITONSERVER_TRACE_LEVEL_TENSORS, 0);
  follow("one", TRITONSERVER_TRACE_LEVEL_DISABLED, 0);
  follow("steps", TRITONSERVER_TRACE_LEVEL_MIN, 2);
  follow("caller", TRITONSERVER_TRACE_LEVEL_TIMESTAMPS, 1);
  follow("three", TRITONSERVER_TRACE_LEVEL_TENSORS, 0);
  printf("refused:\n");
  TRITONSERVER_InferenceRequest *q = new_request("one", "ABSENT", NULL);
  refused("absent input", send(q, new_trace(TRITONSERVER_TRACE_LEVEL_TIMESTAMPS, 0), 0));
  printf("  open %d\n", state.open);
  must(TRITONSERVER_InferenceRequestRemoveAllInputs(q));
  forget(q);
  printf("failed:\n");
  q = new_request("fails", "INPUT0", NULL);
  error *e = send(q, new_trace(TRITONSERVER_TRACE_LEVEL_TIMESTAMPS, 0), 0);
  printf("  %s\n", e == NULL ? "no error" : TRITONSERVER_ErrorCodeString(e));
  forget(q);
  state.counts = true;
  follow("busy", TRITONSERVER_TRACE_LEVEL_TIMESTAMPS, 0);
  state.counts = false;
  printf("  %d activities\n", state.custom);
  own();
  others();

  must(TRITONSERVER_ServerSetExitTimeout(server, 1));
  refused("no server", TRITONSERVER_ServerSetExitTimeout(NULL, 1));
  must(TRITONSERVER_ServerDelete(server));
  must(TRITONSERVER_ResponseAllocatorDelete(allocator));
  printf("done\n");
  return 0;
}
