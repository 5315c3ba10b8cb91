// For test_embed.py. checks REPOSITORY LOG gives the library what it must refuse, and deletes a server while a function
// of the program runs.
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "must.h"

static TRITONSERVER_Server *server;

// What an answer waits for, and what the functions of the program do.
static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool no_memory, cannot_free, slow;
  int finals;
  bool left;
  TRITONSERVER_InferenceResponse *response;
} state = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER};

static error *allocate(TRITONSERVER_ResponseAllocator *a, const char *output, size_t size, TRITONSERVER_MemoryType type,
    int64_t id, void *userp, void **buffer, void **buffer_userp, TRITONSERVER_MemoryType *actual, int64_t *actual_id) {
  *buffer = state.no_memory ? NULL : malloc(size);
  *actual = TRITONSERVER_MEMORY_CPU;
  *actual_id = 0;
  return NULL;
}

static error *release(TRITONSERVER_ResponseAllocator *a, void *buffer, void *buffer_userp, size_t size,
    TRITONSERVER_MemoryType type, int64_t id) {
  free(buffer);
  return state.cannot_free ? TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "it is stuck") : NULL;
}

static void released(TRITONSERVER_InferenceRequest *q, const uint32_t flags, void *userp) {}

static void respond(TRITONSERVER_InferenceResponse *r, const uint32_t flags, void *userp) {
  pthread_mutex_lock(&state.lock);
  state.response = r;
  state.finals++;
  pthread_cond_signal(&state.changed);
  pthread_mutex_unlock(&state.lock);
  if (state.slow) {  // far longer than a server needs to stop
    nanosleep(&(struct timespec){1, 0}, NULL);
    state.left = true;
  }
}

static TRITONSERVER_InferenceRequest *ask(const char *model, TRITONSERVER_ResponseAllocator *allocator) {
  static const float values[16] = {1};
  const int64_t shape[] = {1, 16};
  TRITONSERVER_InferenceRequest *q;
  state.finals = 0;
  must(TRITONSERVER_InferenceRequestNew(&q, server, model, -1));
  must(TRITONSERVER_InferenceRequestAddInput(q, "INPUT0", TRITONSERVER_TYPE_FP32, shape, 2));
  must(TRITONSERVER_InferenceRequestAppendInputData(q, "INPUT0", values, sizeof values, TRITONSERVER_MEMORY_CPU, 0));
  must(TRITONSERVER_InferenceRequestSetReleaseCallback(q, released, NULL));
  must(TRITONSERVER_InferenceRequestSetResponseCallback(q, allocator, NULL, respond, NULL));
  must(TRITONSERVER_ServerInferAsync(server, q, NULL));
  pthread_mutex_lock(&state.lock);
  while (state.finals == 0) pthread_cond_wait(&state.changed, &state.lock);
  pthread_mutex_unlock(&state.lock);
  return q;
}

static void pointers(TRITONSERVER_ServerOptions *o) {
  TRITONSERVER_InferenceRequest *q;
  TRITONSERVER_Message *m;
  TRITONSERVER_Metrics *metrics;
  TRITONSERVER_MetricFamily *family;
  TRITONSERVER_Metric *metric;
  TRITONSERVER_Server *made;
  double value;
  bool is;
  uint32_t n;
  const char *text;
  refused("null ServerNew", TRITONSERVER_ServerNew(&made, NULL));
  refused("null ServerStop", TRITONSERVER_ServerStop(NULL));
  refused("null ServerIsLive", TRITONSERVER_ServerIsLive(NULL, &is));
  refused("null ServerIsReady", TRITONSERVER_ServerIsReady(NULL, &is));
  refused("null ServerModelIsReady", TRITONSERVER_ServerModelIsReady(NULL, "m", -1, &is));
  refused("null ServerMetadata", TRITONSERVER_ServerMetadata(NULL, &m));
  refused("null ServerModelMetadata", TRITONSERVER_ServerModelMetadata(server, NULL, -1, &m));
  refused("null ServerModelStatistics", TRITONSERVER_ServerModelStatistics(NULL, "m", -1, &m));
  refused("null ServerModelConfig", TRITONSERVER_ServerModelConfig(NULL, "m", -1, 1, &m));
  refused("null ServerModelIndex", TRITONSERVER_ServerModelIndex(NULL, 0, &m));
  refused("null ServerModelBatchProperties", TRITONSERVER_ServerModelBatchProperties(NULL, "m", -1, &n, NULL));
  refused("null ServerMetrics", TRITONSERVER_ServerMetrics(NULL, &metrics));
  refused("null ServerRegister", TRITONSERVER_ServerRegisterModelRepository(NULL, "/tmp", NULL, 0));
  refused("null ServerUnregister", TRITONSERVER_ServerUnregisterModelRepository(server, NULL));
  refused("null ServerLoadModel", TRITONSERVER_ServerLoadModel(NULL, "m"));
  refused("null ServerUnloadModel", TRITONSERVER_ServerUnloadModel(server, NULL));
  refused("null InferenceRequestNew", TRITONSERVER_InferenceRequestNew(&q, NULL, "m", -1));
  refused("null InferenceRequestId", TRITONSERVER_InferenceRequestId(NULL, &text));
  refused("null ServerInferAsync", TRITONSERVER_ServerInferAsync(server, NULL, NULL));
  refused("null InferenceResponseOutputCount", TRITONSERVER_InferenceResponseOutputCount(NULL, &n));
  refused("null MetricFamilyNew", TRITONSERVER_MetricFamilyNew(&family, TRITONSERVER_METRIC_KIND_GAUGE, NULL, ""));
  refused("null MetricNew", TRITONSERVER_MetricNew(&metric, NULL, NULL, 0));
  refused("null MetricValue", TRITONSERVER_MetricValue(NULL, &value));
  refused("null SetServerId", TRITONSERVER_ServerOptionsSetServerId(o, NULL));
  refused("null SetLogFile", TRITONSERVER_ServerOptionsSetLogFile(NULL, "file"));
  refused("null SetBackendConfig", TRITONSERVER_ServerOptionsSetBackendConfig(o, NULL, "key", NULL));
}

static void inputs(void) {
  TRITONSERVER_InferenceRequest *q;
  const int64_t shape[] = {1};
  must(TRITONSERVER_InferenceRequestNew(&q, server, "builtin_identity", -1));
  refused("type 258", TRITONSERVER_InferenceRequestAddInput(q, "a", (TRITONSERVER_DataType)258, shape, 1));
  refused("type 0", TRITONSERVER_InferenceRequestAddInput(q, "a", TRITONSERVER_TYPE_INVALID, shape, 1));
  refused("dims", TRITONSERVER_InferenceRequestAddInput(q, "a", TRITONSERVER_TYPE_FP32, shape, UINT64_MAX));
  must(TRITONSERVER_InferenceRequestAddInput(q, "a", TRITONSERVER_TYPE_FP32, shape, 1));
  refused("no data", TRITONSERVER_InferenceRequestAppendInputData(q, "a", NULL, 4, TRITONSERVER_MEMORY_CPU, 0));
  must(TRITONSERVER_InferenceRequestAppendInputData(q, "a", shape, 4, TRITONSERVER_MEMORY_CPU, 0));
  refused("bytes", TRITONSERVER_InferenceRequestAppendInputData(q, "a", shape, SIZE_MAX, TRITONSERVER_MEMORY_CPU, 0));
  must(TRITONSERVER_InferenceRequestDelete(q));
}

int main(int argc, char **argv) {
  TRITONSERVER_ServerOptions *o;
  TRITONSERVER_ResponseAllocator *allocator;
  TRITONSERVER_InferenceRequest *q;
  setlocale(LC_ALL, "");
  printf("decimal point: %s\n", localeconv()->decimal_point);
  must(TRITONSERVER_ServerOptionsNew(&o));
  must(TRITONSERVER_ServerOptionsSetModelRepositoryPath(o, argv[1]));
  must(TRITONSERVER_ServerOptionsSetStrictModelConfig(o, false));
  must(TRITONSERVER_ServerOptionsSetLogFile(o, argv[2]));
  must(TRITONSERVER_ServerOptionsSetLogInfo(o, false));
  must(TRITONSERVER_ServerOptionsSetMinSupportedComputeCapability(o, 6.123456789));
  must(TRITONSERVER_ServerNew(&server, o));
  pointers(o);
  must(TRITONSERVER_ServerOptionsDelete(o));
  must(TRITONSERVER_ResponseAllocatorNew(&allocator, allocate, release, NULL));
  refused("unknown model", TRITONSERVER_InferenceRequestNew(&q, server, "absent", -1));
  refused("unknown version", TRITONSERVER_InferenceRequestNew(&q, server, "builtin_identity", 7));
  inputs();

  must(TRITONSERVER_LogMessage(TRITONSERVER_LOG_INFO, "own.c", 1, "an information of the program"));
  must(TRITONSERVER_LogMessage(TRITONSERVER_LOG_ERROR, "own.c", 2, "an error of the program"));
  printf("logs %d %d\n", TRITONSERVER_LogIsEnabled(TRITONSERVER_LOG_INFO),
      TRITONSERVER_LogIsEnabled(TRITONSERVER_LOG_ERROR));

  q = ask("parameters_alone", allocator);
  uint32_t count = 0;
  if (state.response != NULL) must(TRITONSERVER_InferenceResponseParameterCount(state.response, &count));
  printf("parameters without outputs: %u\n", count);
  if (state.response != NULL) must(TRITONSERVER_InferenceResponseDelete(state.response));
  must(TRITONSERVER_InferenceRequestDelete(q));

  state.no_memory = true;
  q = ask("builtin_identity", allocator);
  error *e = TRITONSERVER_InferenceResponseError(state.response);
  printf("no memory: %s\n", e == NULL ? "no error" : TRITONSERVER_ErrorMessage(e));
  must(TRITONSERVER_InferenceResponseDelete(state.response));
  must(TRITONSERVER_InferenceRequestDelete(q));
  state.no_memory = false;

  state.cannot_free = true;
  q = ask("builtin_identity", allocator);
  must(TRITONSERVER_InferenceResponseDelete(state.response));
  must(TRITONSERVER_InferenceRequestDelete(q));

  state.slow = true;
  q = ask("builtin_identity", allocator);
  must(TRITONSERVER_ServerDelete(server));
  printf("the function has returned: %d\n", state.left);
  must(TRITONSERVER_InferenceResponseDelete(state.response));
  must(TRITONSERVER_InferenceRequestDelete(q));
  must(TRITONSERVER_ResponseAllocatorDelete(allocator));
  return 0;
}
