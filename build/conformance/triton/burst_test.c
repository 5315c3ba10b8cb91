// A decoupled backend that answers with many large responses. The input says where they are sent, 0: in the execution,
// 1: on another thread, and how many; 0: one, and then it waits until the request is cancelled.

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "triton.h"

enum { VALUES = 65536 };

typedef struct {
  Factory *factory;
  int count;
} job;

static void send(Factory *f, float value) {
  Response *r;
  Output *out;
  void *to;
  int64_t shape = VALUES, id;
  int memory;
  TRITONBACKEND_ResponseNewFromFactory(&r, f);
  TRITONBACKEND_ResponseOutput(r, &out, "OUT", 11, &shape, 1);
  TRITONBACKEND_OutputBuffer(out, &to, VALUES * sizeof(float), &memory, &id);
  memset(to, 0, VALUES * sizeof(float));
  *(float *)to = value;
  TRITONBACKEND_ResponseSend(r, 0, NULL);
}

static void *run(void *arg) {
  job *j = arg;
  bool cancelled = j->count > 0;
  for (int i = 0; i < j->count || i == 0; i++) send(j->factory, (float)i);
  while (!cancelled) {
    usleep(1000);
    TRITONBACKEND_ResponseFactoryIsCancelled(j->factory, &cancelled);
  }
  char text[64];
  snprintf(text, sizeof text, j->count == 0 ? "the burst was cancelled" : "%d responses were sent", j->count);
  TRITONSERVER_LogMessage(0, "burst_test.c", 1, text);
  TRITONBACKEND_ResponseFactorySendFlags(j->factory, FINAL);
  TRITONBACKEND_ResponseFactoryDelete(j->factory);
  free(j);
  return NULL;
}

Error *TRITONBACKEND_ModelInstanceExecute(Instance *i, Request **requests, uint32_t count) {
  for (uint32_t k = 0; k < count; k++) {
    pthread_t thread;
    job *j = malloc(sizeof *j);
    const float *wanted = values(requests[k]);
    bool apart = wanted[0] != 0;
    j->count = (int)wanted[1];
    TRITONBACKEND_ResponseFactoryNew(&j->factory, requests[k]);
    TRITONBACKEND_RequestRelease(requests[k], ALL);
    if (!apart) {
      run(j);
      continue;
    }
    pthread_create(&thread, NULL, run, j);
    pthread_detach(thread);
  }
  return NULL;
}
