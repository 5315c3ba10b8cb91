// A batching strategy: the inputs of a batch have at most as many bytes as the model's parameter "most_bytes" says.
// It crashes, hangs or fails at a request with a parameter of that name.

#include <stdio.h>
#include <unistd.h>

#include "triton.h"

typedef struct {
  uint64_t most, used;
} Volume;

static void say(const char *text) { TRITONSERVER_LogMessage(0, __FILE__, __LINE__, text); }

Error *TRITONBACKEND_ModelBatcherInitialize(Volume **batcher, Model *m) {
  Message *config;
  const char *text, *name;
  size_t size;
  uint64_t version;
  Error *e = TRITONBACKEND_ModelConfig(m, 1, &config);
  if (e != NULL) return e;
  TRITONSERVER_MessageSerializeToJson(config, &text, &size);
  const char *value = strstr(text, "\"most_bytes\":{\"string_value\":\"");
  uint64_t most = value == NULL ? 0 : strtoull(value + strlen("\"most_bytes\":{\"string_value\":\""), NULL, 10);
  TRITONSERVER_MessageDelete(config);
  if (most == 0) return TRITONSERVER_ErrorNew(3, "the model needs the parameter most_bytes");
  *batcher = calloc(1, sizeof **batcher);
  (*batcher)->most = most;
  TRITONBACKEND_ModelName(m, &name);
  TRITONBACKEND_ModelVersion(m, &version);
  char line[100];
  snprintf(line, sizeof line, "volume begins for %s version %d", name, (int)version);
  say(line);
  return NULL;
}

Error *TRITONBACKEND_ModelBatcherFinalize(Volume *batcher) {
  say("volume ends");
  free(batcher);
  return NULL;
}

Error *TRITONBACKEND_ModelBatchInitialize(const Volume *batcher, Volume **batch) {
  *batch = malloc(sizeof **batch);
  **batch = *batcher;
  return NULL;
}

Error *TRITONBACKEND_ModelBatchFinalize(Volume *batch) {
  free(batch);
  return NULL;
}

// wanted says whether a request has a parameter.
static bool wanted(Request *q, const char *what) {
  uint32_t count;
  TRITONBACKEND_RequestParameterCount(q, &count);
  for (uint32_t i = 0; i < count; i++) {
    const char *name;
    const void *value;
    int type;
    TRITONBACKEND_RequestParameter(q, i, &name, &type, &value);
    if (strcmp(name, what) == 0) return true;
  }
  return false;
}

Error *TRITONBACKEND_ModelBatchIncludeRequest(Request *q, Volume *batch, bool *included) {
  if (wanted(q, "crash")) abort();
  if (wanted(q, "hang")) pause();
  if (wanted(q, "fail")) return TRITONSERVER_ErrorNew(1, "the strategy fails");
  Input *in;
  const void *data;
  uint64_t size;
  int64_t id;
  int memory;
  TRITONBACKEND_RequestInputByIndex(q, 0, &in);
  TRITONBACKEND_InputProperties(in, NULL, NULL, NULL, NULL, &size, NULL);
  Error *e = TRITONBACKEND_InputBuffer(in, 0, &data, &size, &memory, &id);
  if (e != NULL) {
    say(TRITONSERVER_ErrorMessage(e));
    TRITONSERVER_ErrorDelete(e);
  } else if (((const float *)data)[0] == -1) {
    say("the strategy reads -1");
  }
  *included = batch->used + size <= batch->most;
  if (*included) batch->used += size;
  return NULL;
}
