// For test_embed.py. requests REPOSITORY GATE ENTERED sets and removes all that a request has, and prints what the
// models "tells", "echo", "sums" and "gated" see of it. GATE and ENTERED are pipes: "gated" opens them in its first execution.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"

typedef TRITONSERVER_InferenceRequest request;
typedef TRITONSERVER_InferenceResponse response;

static TRITONSERVER_Server *server;
static TRITONSERVER_ResponseAllocator *allocator;

static error *allocate(TRITONSERVER_ResponseAllocator *a, const char *output, size_t size, TRITONSERVER_MemoryType type,
    int64_t id, void *userp, void **buffer, void **buffer_userp, TRITONSERVER_MemoryType *actual, int64_t *actual_id) {
  *buffer = malloc(size + 1);
  *actual = TRITONSERVER_MEMORY_CPU;
  *actual_id = 0;
  return NULL;
}

static error *give_back(TRITONSERVER_ResponseAllocator *a, void *buffer, void *buffer_userp, size_t size,
    TRITONSERVER_MemoryType type, int64_t id) {
  free(buffer);
  return NULL;
}

static void released(request *q, const uint32_t flags, void *userp) {}

// The responses in the order in which they came.
static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  response *all[16];
  int count;
} answers = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER};

static void respond(response *r, const uint32_t flags, void *userp) {
  pthread_mutex_lock(&answers.lock);
  answers.all[answers.count++] = r;
  pthread_cond_signal(&answers.changed);
  pthread_mutex_unlock(&answers.lock);
}

static error *try_to_send(request *q) {
  must(TRITONSERVER_InferenceRequestSetReleaseCallback(q, released, NULL));
  must(TRITONSERVER_InferenceRequestSetResponseCallback(q, allocator, NULL, respond, NULL));
  return TRITONSERVER_ServerInferAsync(server, q, NULL);
}

static void send(request *q) { must(try_to_send(q)); }

static void wait_for(int count) {
  pthread_mutex_lock(&answers.lock);
  while (answers.count < count) pthread_cond_wait(&answers.changed, &answers.lock);
  pthread_mutex_unlock(&answers.lock);
}

// show prints a response, with all its outputs and parameters, and deletes it.
static void show(const char *what, response *r) {
  printf("%s:", what);
  error *e = TRITONSERVER_InferenceResponseError(r);
  if (e != NULL) printf(" %d %s", TRITONSERVER_ErrorCode(e), TRITONSERVER_ErrorMessage(e));
  uint32_t count;
  const char *name;
  must(TRITONSERVER_InferenceResponseOutputCount(r, &count));
  for (uint32_t i = 0; i < count; i++) {
    TRITONSERVER_DataType type;
    TRITONSERVER_MemoryType memory;
    const int64_t *dims;
    uint64_t dim_count;
    const void *data;
    size_t size;
    int64_t id;
    void *userp;
    must(TRITONSERVER_InferenceResponseOutput(
        r, i, &name, &type, &dims, &dim_count, &data, &size, &memory, &id, &userp));
    printf(" %s", name);
    for (size_t k = 0; k < size / 4; k++) printf("%c%g", k == 0 ? '=' : ',', ((const float *)data)[k]);
  }
  must(TRITONSERVER_InferenceResponseParameterCount(r, &count));
  for (uint32_t i = 0; i < count; i++) {
    TRITONSERVER_ParameterType type;
    const void *value;
    must(TRITONSERVER_InferenceResponseParameter(r, i, &name, &type, &value));
    printf(" %s %s ", TRITONSERVER_ParameterTypeString(type), name);
    if (type == TRITONSERVER_PARAMETER_STRING) printf("%s", (const char *)value);
    if (type == TRITONSERVER_PARAMETER_INT) printf("%d", (int)*(const int64_t *)value);
    if (type == TRITONSERVER_PARAMETER_BOOL) printf("%d", *(const bool *)value);
    if (type == TRITONSERVER_PARAMETER_DOUBLE) printf("%g", *(const double *)value);
  }
  printf("\n");
  TRITONSERVER_ParameterType type;
  const void *value;
  if (count > 0) refused("no parameter", TRITONSERVER_InferenceResponseParameter(r, count, &name, &type, &value));
  must(TRITONSERVER_InferenceResponseDelete(r));
}

// ask sends a request and prints its response, or why it is not sent. The request stays the caller's.
static void ask(const char *what, request *q) {
  answers.count = 0;
  error *e = try_to_send(q);
  if (e != NULL) {
    refused(what, e);
    return;
  }
  wait_for(1);
  show(what, answers.all[0]);
}

static const int64_t shape[] = {1, 2};

static request *new_request(const char *model) {
  request *q;
  must(TRITONSERVER_InferenceRequestNew(&q, server, model, -1));
  return q;
}

static void add_input(request *q, const char *name, const float *values) {
  must(TRITONSERVER_InferenceRequestAddInput(q, name, TRITONSERVER_TYPE_FP32, shape, 2));
  must(TRITONSERVER_InferenceRequestAppendInputData(q, name, values, 8, TRITONSERVER_MEMORY_CPU, 0));
}

static request *new_input(const char *model, const float *values) {
  request *q = new_request(model);
  add_input(q, "INPUT0", values);
  return q;
}

static void add_parameters(request *q) {
  must(TRITONSERVER_InferenceRequestSetStringParameter(q, "s", "text"));
  must(TRITONSERVER_InferenceRequestSetIntParameter(q, "i", -7));
  must(TRITONSERVER_InferenceRequestSetBoolParameter(q, "b", true));
  must(TRITONSERVER_InferenceRequestSetDoubleParameter(q, "d", 0.5));
}

static void names(void) {
  printf("types:");
  for (int i = 1; i <= 14; i++) {
    const char *name = TRITONSERVER_DataTypeString((TRITONSERVER_DataType)i);
    printf(" %s=%d/%u", name, TRITONSERVER_StringToDataType(name), TRITONSERVER_DataTypeByteSize(i));
  }
  printf("\nno type: %d %d\n", TRITONSERVER_StringToDataType("TYPE_FP32"), TRITONSERVER_StringToDataType(NULL));
  printf("kinds:");
  for (int i = 0; i <= 4; i++) printf(" %s", TRITONSERVER_InstanceGroupKindString((TRITONSERVER_InstanceGroupKind)i));
  printf("\nparameters:");
  for (int i = 0; i <= 5; i++) printf(" %s", TRITONSERVER_ParameterTypeString((TRITONSERVER_ParameterType)i));
  printf("\nlevels:");
  for (int i = 0; i <= 16; i = i == 0 ? 1 : i * 2)
    printf(" %s", TRITONSERVER_InferenceTraceLevelString((TRITONSERVER_InferenceTraceLevel)i));
  printf("\n");
}

static void messages_and_families(void) {
  TRITONSERVER_Message *m;
  TRITONSERVER_MetricFamily *family;
  TRITONSERVER_MetricKind kind;
  const char *text;
  size_t size;
  must(TRITONSERVER_MessageNewFromSerializedJson(&m, "{\"a\":1} and more", 7));
  must(TRITONSERVER_MessageSerializeToJson(m, &text, &size));
  printf("message: %.*s\n", (int)size, text);
  must(TRITONSERVER_MessageDelete(m));
  must(TRITONSERVER_MetricFamilyNew(&family, TRITONSERVER_METRIC_KIND_GAUGE, "own_gauge", ""));
  must(TRITONSERVER_GetMetricFamilyKind(family, &kind));
  printf("family: %d\n", kind);
  must(TRITONSERVER_MetricFamilyDelete(family));
}

// priorities prints what a request for a model reads back: before a priority is set, and after each of some.
static void priorities(const char *name) {
  static const uint64_t set[] = {0, 1, 2, 3, 1ULL << 40};
  request *q = new_request(name);
  uint32_t small;
  uint64_t read;
  must(TRITONSERVER_InferenceRequestPriorityUInt64(q, &read));
  printf("levels of %s: %llu", name, (unsigned long long)read);
  for (size_t i = 0; i < sizeof set / sizeof *set; i++) {
    must(TRITONSERVER_InferenceRequestSetPriorityUInt64(q, set[i]));
    must(TRITONSERVER_InferenceRequestPriorityUInt64(q, &read));
    printf(" %llu", (unsigned long long)read);
  }
  printf("\n");
  if (read > UINT32_MAX) refused("priority", TRITONSERVER_InferenceRequestPriority(q, &small));
  must(TRITONSERVER_InferenceRequestDelete(q));
}

// fields sets what a request has, reads it back, and prints what the model gets.
static void fields(void) {
  const float values[] = {1, 2};
  uint32_t flags, priority;
  uint64_t number, timeout;
  const char *text;
  bool cancelled;
  request *q = new_input("tells", values);
  must(TRITONSERVER_InferenceRequestSetId(q, "mine"));
  must(TRITONSERVER_InferenceRequestSetFlags(q, TRITONSERVER_REQUEST_FLAG_SEQUENCE_END));
  must(TRITONSERVER_InferenceRequestFlags(q, &flags));
  must(TRITONSERVER_InferenceRequestSetCorrelationId(q, 18446744073709551615U));
  must(TRITONSERVER_InferenceRequestCorrelationId(q, &number));
  refused("not a text", TRITONSERVER_InferenceRequestCorrelationIdString(q, &text));
  must(TRITONSERVER_InferenceRequestSetPriority(q, 2));
  must(TRITONSERVER_InferenceRequestPriority(q, &priority));
  priorities("tells");
  priorities("gated");
  priorities("steps");
  must(TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(q, 60000000));
  must(TRITONSERVER_InferenceRequestTimeoutMicroseconds(q, &timeout));
  printf("fields: flags %u, number %llu, priority %u, timeout %llu\n", flags, (unsigned long long)number, priority,
      (unsigned long long)timeout);
  add_parameters(q);
  refused("no cancel", TRITONSERVER_InferenceRequestCancel(q));
  refused("no state", TRITONSERVER_InferenceRequestIsCancelled(q, &cancelled));
  ask("numbers", q);

  char longest[130];
  memset(longest, 'c', 129);
  longest[129] = 0;
  refused("long text", TRITONSERVER_InferenceRequestSetCorrelationIdString(q, longest));
  must(TRITONSERVER_InferenceRequestSetCorrelationIdString(q, longest + 1));
  must(TRITONSERVER_InferenceRequestSetCorrelationIdString(q, "seven"));
  must(TRITONSERVER_InferenceRequestCorrelationIdString(q, &text));
  refused("not a number", TRITONSERVER_InferenceRequestCorrelationId(q, &number));
  printf("text %s\n", text);
  must(TRITONSERVER_InferenceRequestAddRequestedOutput(q, "OUTPUT1"));
  ask("texts", q);
  must(TRITONSERVER_InferenceRequestDelete(q));

  q = new_request("echo");
  add_input(q, "IN", values);
  add_parameters(q);
  ask("echo", q);
  must(TRITONSERVER_InferenceRequestDelete(q));
}

static void inputs_and_outputs(void) {
  const float first[] = {1, 2}, second[] = {3, 4};
  TRITONSERVER_BufferAttributes *a;
  TRITONSERVER_MemoryType memory;
  size_t size;
  int64_t id;
  request *q = new_input("tells", first);
  refused("input twice", TRITONSERVER_InferenceRequestAddInput(q, "INPUT0", TRITONSERVER_TYPE_FP32, shape, 2));
  must(TRITONSERVER_InferenceRequestRemoveAllInputData(q, "INPUT0"));
  ask("no data", q);
  must(TRITONSERVER_BufferAttributesNew(&a));
  must(TRITONSERVER_BufferAttributesSetByteSize(a, 4));
  must(TRITONSERVER_BufferAttributesSetMemoryTypeId(a, 5));
  must(TRITONSERVER_BufferAttributesSetMemoryType(a, TRITONSERVER_MEMORY_GPU));
  refused("gpu", TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes(q, "INPUT0", second, a));
  must(TRITONSERVER_BufferAttributesSetMemoryType(a, TRITONSERVER_MEMORY_CPU_PINNED));
  must(TRITONSERVER_BufferAttributesMemoryType(a, &memory));
  must(TRITONSERVER_BufferAttributesMemoryTypeId(a, &id));
  must(TRITONSERVER_BufferAttributesByteSize(a, &size));
  printf("attributes: %s %d %d\n", TRITONSERVER_MemoryTypeString(memory), (int)id, (int)size);
  must(TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes(q, "INPUT0", second, a));
  must(TRITONSERVER_BufferAttributesDelete(a));
  must(TRITONSERVER_InferenceRequestAppendInputDataWithHostPolicy(
      q, "INPUT0", second + 1, 4, TRITONSERVER_MEMORY_CPU, 0, "policy"));
  ask("other data", q);

  must(TRITONSERVER_InferenceRequestAddRequestedOutput(q, "OUTPUT1"));
  must(TRITONSERVER_InferenceRequestAddRequestedOutput(q, "OUTPUT0"));
  refused("output twice", TRITONSERVER_InferenceRequestAddRequestedOutput(q, "OUTPUT1"));
  must(TRITONSERVER_InferenceRequestRemoveRequestedOutput(q, "OUTPUT0"));
  must(TRITONSERVER_InferenceRequestRemoveRequestedOutput(q, "absent"));
  ask("one output", q);
  must(TRITONSERVER_InferenceRequestRemoveAllRequestedOutputs(q));
  ask("all outputs", q);

  must(TRITONSERVER_InferenceRequestRemoveInput(q, "INPUT0"));
  refused("removed", TRITONSERVER_InferenceRequestRemoveInput(q, "INPUT0"));
  refused("data of none",
      TRITONSERVER_InferenceRequestAppendInputData(q, "INPUT0", first, 8, TRITONSERVER_MEMORY_CPU, 0));
  must(TRITONSERVER_InferenceRequestAddRawInput(q, "INPUT0"));
  must(TRITONSERVER_InferenceRequestRemoveAllInputs(q));
  add_input(q, "INPUT0", first);
  ask("after all", q);
  must(TRITONSERVER_InferenceRequestDelete(q));
}

// step sends a request of a sequence, whose correlation id is a number or, if there is one, a text.
static void step(const char *what, uint64_t number, const char *text, uint32_t flags, float value) {
  const float values[] = {value, 0};
  request *q = new_input("sums", values);
  must(text != NULL ? TRITONSERVER_InferenceRequestSetCorrelationIdString(q, text)
                    : TRITONSERVER_InferenceRequestSetCorrelationId(q, number));
  must(TRITONSERVER_InferenceRequestSetFlags(q, flags));
  ask(what, q);
  must(TRITONSERVER_InferenceRequestDelete(q));
}

static void sequences(void) {
  enum { start = TRITONSERVER_REQUEST_FLAG_SEQUENCE_START, end = TRITONSERVER_REQUEST_FLAG_SEQUENCE_END };
  step("not started", 7, NULL, 0, 1);
  step("seven starts", 7, NULL, start, 1);
  step("text starts", 0, "seven", start, 10);
  step("seven goes on", 7, NULL, 0, 2);
  step("text ends", 0, "seven", end, 20);
  step("seven ends", 7, NULL, end, 3);
  step("seven is over", 7, NULL, 0, 4);
}

// queue fills the queue of a model whose first execution waits for the gate. Then it cancels a request, and opens it.
static void queue(const char *gate, const char *entered) {
  const float values[] = {1, 0};
  request *all[4];
  bool cancelled[4];
  answers.count = 0;
  send(all[0] = new_input("gated", values));
  fclose(fopen(entered, "r"));  // returns when the model executes
  for (int i = 1; i < 4; i++) {
    all[i] = new_input("gated", values);
    must(TRITONSERVER_InferenceRequestSetId(all[i], i == 1 ? "cancelled" : i == 2 ? "last" : "first"));
    must(TRITONSERVER_InferenceRequestSetPriorityUInt64(all[i], i == 2 ? 2 : 1));
    send(all[i]);
  }
  must(TRITONSERVER_InferenceRequestCancel(all[1]));
  for (int i = 0; i < 4; i++) must(TRITONSERVER_InferenceRequestIsCancelled(all[i], &cancelled[i]));
  printf("cancelled: %d %d %d %d\n", cancelled[0], cancelled[1], cancelled[2], cancelled[3]);
  fclose(fopen(gate, "w"));
  wait_for(4);
  for (int i = 0; i < 4; i++) {
    const char *id;
    must(TRITONSERVER_InferenceResponseId(answers.all[i], &id));
    printf("%s ", id);
    show("came", answers.all[i]);
    must(TRITONSERVER_InferenceRequestDelete(all[i]));
  }
}

static void print_ready(const char *what) {
  bool one, other;
  must(TRITONSERVER_ServerModelIsReady(server, "tells", -1, &one));
  must(TRITONSERVER_ServerModelIsReady(server, "steps", -1, &other));
  printf("%s: tells %d, steps %d\n", what, one, other);
}

// loads loads a model whose program is in memory, and unloads a model with the ensemble that uses it.
static void loads(void) {
  static const char code[] =
      "import triton_python_backend_utils as pb\nclass TritonPythonModel:\n  def execute(self, requests):\n"
      "    return [pb.InferenceResponse([pb.Tensor('OUTPUT0', r.inputs()[0].as_numpy() * 3)]) for r in requests]\n"
      "not a part of it";
  static const char config[] =
      "{\"backend\": \"python\", \"max_batch_size\": 4, "
      "\"input\": [{\"name\": \"INPUT0\", \"data_type\": \"TYPE_FP32\", \"dims\": [2]}], "
      "\"output\": [{\"name\": \"OUTPUT0\", \"data_type\": \"TYPE_FP32\", \"dims\": [2]}]}";
  const float values[] = {1, 2};
  TRITONSERVER_Parameter *all[] = {TRITONSERVER_ParameterNew("config", TRITONSERVER_PARAMETER_STRING, config),
      TRITONSERVER_ParameterBytesNew("file:1/model.py", code, strlen(code) - strlen("not a part of it"))};
  must(TRITONSERVER_ServerLoadModelWithParameters(server, "bytes", (const TRITONSERVER_Parameter **)all, 2));
  for (int i = 0; i < 2; i++) TRITONSERVER_ParameterDelete(all[i]);
  request *q = new_input("bytes", values);
  ask("bytes", q);
  must(TRITONSERVER_InferenceRequestDelete(q));
  print_ready("before");
  must(TRITONSERVER_ServerUnloadModelAndDependents(server, "tells"));
  print_ready("after");
}

int main(int argc, char **argv) {
  TRITONSERVER_ServerOptions *o;
  names();
  messages_and_families();
  must(TRITONSERVER_ServerOptionsNew(&o));
  must(TRITONSERVER_ServerOptionsSetModelRepositoryPath(o, argv[1]));
  must(TRITONSERVER_ServerOptionsSetModelControlMode(o, TRITONSERVER_MODEL_CONTROL_EXPLICIT));
  must(TRITONSERVER_ServerOptionsSetStartupModel(o, "*"));
  must(TRITONSERVER_ServerOptionsSetLogInfo(o, false));
  must(TRITONSERVER_ServerNew(&server, o));
  must(TRITONSERVER_ServerOptionsDelete(o));
  must(TRITONSERVER_ResponseAllocatorNew(&allocator, allocate, give_back, NULL));
  fields();
  inputs_and_outputs();
  sequences();
  queue(argv[2], argv[3]);
  loads();
  must(TRITONSERVER_ServerDelete(server));
  must(TRITONSERVER_ResponseAllocatorDelete(allocator));
  printf("done\n");
  return 0;
}
