// A decoupled backend: a thread answers each request after its execution, as many times as its first value says. It
// stops when the request is cancelled. It completes the configuration itself.

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "triton.h"

typedef struct {
  Factory *factory;
  int count;
} job;

Error *TRITONBACKEND_ModelInitialize(Model *m) {
  bool completes;
  Message *config;
  const char *text;
  size_t size;
  TRITONBACKEND_ModelAutoCompleteConfig(m, &completes);
  if (!completes) return NULL;
  TRITONBACKEND_ModelConfig(m, 1, &config);
  TRITONSERVER_MessageSerializeToJson(config, &text, &size);
  bool whole = strstr(text, "\"instance_group\"") != NULL;
  TRITONSERVER_MessageDelete(config);
  if (!whole) return TRITONSERVER_ErrorNew(1, "the configuration has no instance group");
  const char *mine =
      "{\"input\":[{\"name\":\"IN\",\"data_type\":\"TYPE_FP32\",\"dims\":[1]}],"
      "\"output\":[{\"name\":\"OUT\",\"data_type\":\"TYPE_FP32\",\"dims\":[1]}],"
      "\"model_transaction_policy\":{\"decoupled\":true}}";
  TRITONSERVER_MessageNewFromSerializedJson(&config, mine, strlen(mine));
  Error *e = TRITONBACKEND_ModelSetConfig(m, 1, config);
  TRITONSERVER_MessageDelete(config);
  return e;
}

static void *run(void *arg) {
  job *j = arg;
  bool cancelled = false;
  for (int i = 0; i < j->count && !cancelled; i++) {
    Response *r;
    Output *out;
    void *to;
    int64_t one = 1, id;
    int memory;
    TRITONBACKEND_ResponseNewFromFactory(&r, j->factory);
    TRITONBACKEND_ResponseOutput(r, &out, "OUT", 11, &one, 1);
    TRITONBACKEND_OutputBuffer(out, &to, sizeof(float), &memory, &id);
    *(float *)to = (float)i;
    TRITONBACKEND_ResponseSend(r, 0, NULL);
    if (j->count > 1000) usleep(1000);  // without end, unless it is cancelled
    TRITONBACKEND_ResponseFactoryIsCancelled(j->factory, &cancelled);
  }
  if (cancelled) TRITONSERVER_LogMessage(1, "stream_test.c", 1, "the stream was cancelled");
  TRITONBACKEND_ResponseFactorySendFlags(j->factory, FINAL);
  TRITONBACKEND_ResponseFactoryDelete(j->factory);
  free(j);
  return NULL;
}

Error *TRITONBACKEND_ModelInstanceExecute(Instance *i, Request **requests, uint32_t count) {
  for (uint32_t k = 0; k < count; k++) {
    pthread_t thread;
    job *j = malloc(sizeof *j);
    j->count = (int)first_value(requests[k]);
    TRITONBACKEND_ResponseFactoryNew(&j->factory, requests[k]);
    TRITONBACKEND_RequestRelease(requests[k], ALL);
    pthread_create(&thread, NULL, run, j);
    pthread_detach(thread);
  }
  return NULL;
}
