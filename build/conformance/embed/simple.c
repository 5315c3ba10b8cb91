// A program with a server in it, for test_embed.py. simple REPOSITORY loads models, infers, and prints what it sees.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"

// must ends the program when a call fails.
// What the functions of a request share with the thread that waits for it.
typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int released, allocated, freed, finals;
  TRITONSERVER_InferenceResponse *responses[16];
  int count;
} answer;

static error *allocate(TRITONSERVER_ResponseAllocator *a, const char *output, size_t size, TRITONSERVER_MemoryType type,
    int64_t id, void *userp, void **buffer, void **buffer_userp, TRITONSERVER_MemoryType *actual, int64_t *actual_id) {
  answer *to = userp;
  to->allocated++;
  *buffer = malloc(size + 1);
  *buffer_userp = to;
  *actual = TRITONSERVER_MEMORY_CPU;
  *actual_id = 0;
  return NULL;
}

static error *release(TRITONSERVER_ResponseAllocator *a, void *buffer, void *buffer_userp, size_t size,
    TRITONSERVER_MemoryType type, int64_t id) {
  ((answer *)buffer_userp)->freed++;
  free(buffer);
  return NULL;
}

static void released(TRITONSERVER_InferenceRequest *q, const uint32_t flags, void *userp) {
  ((answer *)userp)->released++;
}

static void respond(TRITONSERVER_InferenceResponse *r, const uint32_t flags, void *userp) {
  answer *to = userp;
  pthread_mutex_lock(&to->lock);
  if (r != NULL) to->responses[to->count++] = r;
  if (flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) to->finals++;
  pthread_cond_signal(&to->changed);
  pthread_mutex_unlock(&to->lock);
}

static TRITONSERVER_Server *server;
static TRITONSERVER_ResponseAllocator *allocator;
static bool quiet;  // answers are compared with the input in place of being printed

// ask sends 16 numbers, in two pieces, waits for the final response and prints all responses.
static void ask(const char *model, const char *input) {
  float values[16];
  for (int i = 0; i < 16; i++) values[i] = i;
  const int64_t shape[] = {1, 16};
  answer to = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER};
  TRITONSERVER_InferenceRequest *q;
  must(TRITONSERVER_InferenceRequestNew(&q, server, model, -1));
  must(TRITONSERVER_InferenceRequestSetId(q, "one"));
  must(TRITONSERVER_InferenceRequestAddInput(q, input, TRITONSERVER_TYPE_FP32, shape, 2));
  must(TRITONSERVER_InferenceRequestAppendInputData(q, input, values, 24, TRITONSERVER_MEMORY_CPU, 0));
  must(TRITONSERVER_InferenceRequestAppendInputData(q, input, values + 6, 40, TRITONSERVER_MEMORY_CPU, 0));
  if (!quiet) refused("not sent", TRITONSERVER_ServerInferAsync(server, q, NULL));
  must(TRITONSERVER_InferenceRequestSetReleaseCallback(q, released, &to));
  must(TRITONSERVER_InferenceRequestSetResponseCallback(q, allocator, &to, respond, &to));
  must(TRITONSERVER_ServerInferAsync(server, q, NULL));
  pthread_mutex_lock(&to.lock);
  while (to.finals == 0) pthread_cond_wait(&to.changed, &to.lock);
  pthread_mutex_unlock(&to.lock);
  for (int i = 0; i < to.count; i++) {
    TRITONSERVER_InferenceResponse *r = to.responses[i];
    const char *name, *id;
    int64_t version;
    must(TRITONSERVER_InferenceResponseModel(r, &name, &version));
    must(TRITONSERVER_InferenceResponseId(r, &id));
    error *e = TRITONSERVER_InferenceResponseError(r);
    if (e != NULL) {
      printf("answer of %s: %s: %s\n", model, TRITONSERVER_ErrorCodeString(e), TRITONSERVER_ErrorMessage(e));
    } else {
      TRITONSERVER_DataType type;
      TRITONSERVER_MemoryType memory;
      const int64_t *dims;
      uint64_t count;
      const void *data;
      size_t size;
      int64_t memory_id;
      void *userp;
      const char *output;
      must(TRITONSERVER_InferenceResponseOutput(
          r, 0, &output, &type, &dims, &count, &data, &size, &memory, &memory_id, &userp));
      if (quiet) {
        if (size != sizeof values || memcmp(data, values, size) != 0) exit(2);
        must(TRITONSERVER_InferenceResponseDelete(r));
        continue;
      }
      printf("answer of %s %d to %s: %s %s [%d,%d] %zu:", name, (int)version, id, output,
          TRITONSERVER_DataTypeString(type), (int)dims[0], (int)dims[1], size);
      for (size_t k = 0; k < size / 4; k++) printf(" %g", ((const float *)data)[k]);
      printf("\n");
    }
    must(TRITONSERVER_InferenceResponseDelete(r));
  }
  if (!quiet) printf("of %s: %d released, %d of %d buffers freed\n", model, to.released, to.freed, to.allocated);
  must(TRITONSERVER_InferenceRequestDelete(q));
}

static void *ask_often(void *model) {
  for (int i = 0; i < 200; i++) ask(model, "INPUT0");
  return NULL;
}

static void ask_from_threads(char *model) {
  pthread_t threads[8];
  quiet = true;
  for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, ask_often, model);
  for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
  printf("8 threads asked\n");
}

// A request that is sent again when it is released, and that is deleted when it is released for the last time.
enum { again = 5000 };
static int left = again, most_threads;

// threads returns how many threads this process has.
static int threads(void) {
  FILE *f = fopen("/proc/self/status", "r");
  char line[256];
  int n = 0;
  while (f != NULL && n == 0 && fgets(line, sizeof line, f) != NULL) sscanf(line, "Threads: %d", &n);
  if (f == NULL || n == 0) exit(3);
  fclose(f);
  return n;
}

static void send_again(TRITONSERVER_InferenceRequest *q, const uint32_t flags, void *userp) {
  int n = threads();
  if (n > most_threads) most_threads = n;
  if (--left > 0) {
    must(TRITONSERVER_ServerInferAsync(server, q, NULL));
  } else {
    must(TRITONSERVER_InferenceRequestDelete(q));
  }
}

static void count_down(TRITONSERVER_InferenceResponse *r, const uint32_t flags, void *userp) {
  answer *to = userp;
  must(TRITONSERVER_InferenceResponseError(r));
  must(TRITONSERVER_InferenceResponseDelete(r));
  pthread_mutex_lock(&to->lock);
  to->finals++;
  pthread_cond_signal(&to->changed);
  pthread_mutex_unlock(&to->lock);
}

static void ask_from_callbacks(void) {
  static const float values[16];
  const int64_t shape[] = {1, 16};
  answer to = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER};
  TRITONSERVER_InferenceRequest *q;
  must(TRITONSERVER_InferenceRequestNew(&q, server, "builtin_identity", -1));
  must(TRITONSERVER_InferenceRequestAddInput(q, "INPUT0", TRITONSERVER_TYPE_FP32, shape, 2));
  must(TRITONSERVER_InferenceRequestAppendInputData(q, "INPUT0", values, sizeof values, TRITONSERVER_MEMORY_CPU, 0));
  must(TRITONSERVER_InferenceRequestSetReleaseCallback(q, send_again, NULL));
  must(TRITONSERVER_InferenceRequestSetResponseCallback(q, allocator, &to, count_down, &to));
  must(TRITONSERVER_ServerInferAsync(server, q, NULL));
  pthread_mutex_lock(&to.lock);
  while (to.finals < again) pthread_cond_wait(&to.changed, &to.lock);
  pthread_mutex_unlock(&to.lock);
  printf("%d answers to one request, threads %d\n", again, most_threads);
}

static void print_message(const char *what, TRITONSERVER_Message *m) {
  const char *text;
  size_t size;
  must(TRITONSERVER_MessageSerializeToJson(m, &text, &size));
  printf("%s: %.*s\n", what, (int)size, text);
  must(TRITONSERVER_MessageDelete(m));
}

static TRITONSERVER_ServerOptions *new_options(const char *repository) {
  TRITONSERVER_ServerOptions *o;
  must(TRITONSERVER_ServerOptionsNew(&o));
  must(TRITONSERVER_ServerOptionsSetModelRepositoryPath(o, repository));
  must(TRITONSERVER_ServerOptionsSetModelControlMode(o, TRITONSERVER_MODEL_CONTROL_EXPLICIT));
  must(TRITONSERVER_ServerOptionsSetStrictModelConfig(o, false));
  must(TRITONSERVER_ServerOptionsSetLogVerbose(o, 0));
  must(TRITONSERVER_ServerOptionsSetExitTimeout(o, 20));
  return o;
}

static void print_metrics(void) {
  TRITONSERVER_Metrics *m;
  const char *text;
  size_t size;
  must(TRITONSERVER_ServerMetrics(server, &m));
  must(TRITONSERVER_MetricsFormatted(m, TRITONSERVER_METRIC_PROMETHEUS, &text, &size));
  printf("metrics:\n%.*s", (int)size, text);
  must(TRITONSERVER_MetricsDelete(m));
}

static TRITONSERVER_MetricFamily *counters, *sizes;
static TRITONSERVER_Metric *counter, *histogram;

// own_metrics makes metrics before there is a server.
static void own_metrics(void) {
  TRITONSERVER_MetricFamily *same, *family;
  TRITONSERVER_Metric *also;
  TRITONSERVER_MetricArgs *args;
  TRITONSERVER_MetricKind kind;
  const double buckets[] = {1, 10};
  double value;
  TRITONSERVER_Parameter *label = TRITONSERVER_ParameterNew("kind", TRITONSERVER_PARAMETER_STRING, "own");
  const TRITONSERVER_Parameter *labels[] = {label};
  must(TRITONSERVER_MetricFamilyNew(&counters, TRITONSERVER_METRIC_KIND_COUNTER, "own_total", "what the program counts"));
  must(TRITONSERVER_MetricFamilyNew(&same, TRITONSERVER_METRIC_KIND_COUNTER, "own_total", "what the program counts"));
  must(TRITONSERVER_MetricNew(&counter, counters, labels, 1));
  must(TRITONSERVER_MetricNew(&also, same, labels, 1));
  must(TRITONSERVER_MetricIncrement(counter, 2));
  must(TRITONSERVER_MetricIncrement(also, 1.5));
  must(TRITONSERVER_MetricValue(counter, &value));
  must(TRITONSERVER_GetMetricKind(also, &kind));
  printf("own counter %g kind %d\n", value, kind);
  must(TRITONSERVER_MetricDelete(also));
  must(TRITONSERVER_MetricFamilyDelete(same));
  refused("counter down", TRITONSERVER_MetricIncrement(counter, -1));
  refused("counter set", TRITONSERVER_MetricSet(counter, 1));
  refused("taken name", TRITONSERVER_MetricFamilyNew(&family, kind, "nv_inference_count", ""));
  refused("other kind", TRITONSERVER_MetricFamilyNew(&family, TRITONSERVER_METRIC_KIND_GAUGE, "own_total", ""));

  must(TRITONSERVER_MetricFamilyNew(&sizes, TRITONSERVER_METRIC_KIND_HISTOGRAM, "own_sizes", "sizes"));
  refused("no buckets", TRITONSERVER_MetricNew(&histogram, sizes, NULL, 0));
  must(TRITONSERVER_MetricArgsNew(&args));
  must(TRITONSERVER_MetricArgsSetHistogram(args, buckets, 2));
  must(TRITONSERVER_MetricNewWithArgs(&histogram, sizes, NULL, 0, args));
  must(TRITONSERVER_MetricArgsDelete(args));
  must(TRITONSERVER_MetricObserve(histogram, 3));
  must(TRITONSERVER_MetricFamilyNew(&family, TRITONSERVER_METRIC_KIND_GAUGE, "own_gone", "is deleted"));
  must(TRITONSERVER_MetricFamilyDelete(family));
  TRITONSERVER_ParameterDelete(label);
}

static void delete_own_metrics(void) {
  must(TRITONSERVER_MetricDelete(histogram));
  must(TRITONSERVER_MetricDelete(counter));
  must(TRITONSERVER_MetricFamilyDelete(sizes));
  must(TRITONSERVER_MetricFamilyDelete(counters));
}

int main(int argc, char **argv) {
  uint32_t major, minor;
  must(TRITONSERVER_ApiVersion(&major, &minor));
  printf("api %u.%u\n", major, minor);

  own_metrics();
  TRITONSERVER_ServerOptions *o = new_options("/nowhere");
  refused("no repository", TRITONSERVER_ServerNew(&server, o));
  must(TRITONSERVER_ServerOptionsSetModelLoadThreadCount(o, 0));
  refused("bad option", TRITONSERVER_ServerNew(&server, o));
  must(TRITONSERVER_ServerOptionsDelete(o));

  o = new_options(argv[1]);
  must(TRITONSERVER_ServerOptionsSetServerId(o, "inside"));
  must(TRITONSERVER_ServerOptionsSetStartupModel(o, "builtin_identity"));
  must(TRITONSERVER_ServerNew(&server, o));
  must(TRITONSERVER_ServerOptionsDelete(o));
  must(TRITONSERVER_ResponseAllocatorNew(&allocator, allocate, release, NULL));

  bool live, ready, model_ready, other_ready;
  uint32_t batch, transactions;
  must(TRITONSERVER_ServerIsLive(server, &live));
  must(TRITONSERVER_ServerIsReady(server, &ready));
  must(TRITONSERVER_ServerModelIsReady(server, "builtin_identity", -1, &model_ready));
  must(TRITONSERVER_ServerModelIsReady(server, "absent", -1, &other_ready));
  must(TRITONSERVER_ServerModelBatchProperties(server, "builtin_identity", -1, &batch, NULL));
  must(TRITONSERVER_ServerModelTransactionProperties(server, "builtin_identity", -1, &transactions, NULL));
  printf("live %d ready %d model %d other %d batch %u transactions %u\n", live, ready, model_ready, other_ready, batch,
      transactions);

  TRITONSERVER_Message *m;
  must(TRITONSERVER_ServerMetadata(server, &m));
  print_message("server", m);
  must(TRITONSERVER_ServerModelMetadata(server, "builtin_identity", -1, &m));
  print_message("model", m);
  must(TRITONSERVER_ServerModelConfig(server, "builtin_identity", -1, 1, &m));
  print_message("config", m);
  refused("no model", TRITONSERVER_ServerModelMetadata(server, "absent", -1, &m));

  ask("builtin_identity", "INPUT0");
  for (int i = 2; i < argc; i++) {
    must(TRITONSERVER_ServerLoadModel(server, argv[i]));
    ask(argv[i], "INPUT0");
    must(TRITONSERVER_ServerUnloadModel(server, argv[i]));
  }
  refused("no load", TRITONSERVER_ServerLoadModel(server, "absent"));
  must(TRITONSERVER_ServerModelStatistics(server, "builtin_identity", -1, &m));
  print_message("statistics", m);
  must(TRITONSERVER_ServerModelIndex(server, TRITONSERVER_INDEX_FLAG_READY, &m));
  print_message("index", m);
  must(TRITONSERVER_MetricIncrement(counter, 0.5));
  print_metrics();
  ask_from_threads("builtin_identity");
  ask_from_callbacks();

  must(TRITONSERVER_ServerStop(server));
  must(TRITONSERVER_ServerIsLive(server, &live));
  printf("live after stop %d\n", live);
  must(TRITONSERVER_ServerDelete(server));
  must(TRITONSERVER_ResponseAllocatorDelete(allocator));
  delete_own_metrics();
  printf("done\n");
  return 0;
}
