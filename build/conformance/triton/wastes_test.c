// A backend that wastes what the first value of a request says: 0 nothing, 1 time, without end, 2 memory, until there is
// none, 3 descriptors, threads, memory and a response, which it keeps, 4 the request, which it answers and keeps, 5 time,
// until the request is cancelled.

#include <fcntl.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "triton.h"

static void *sleep_on(void *unused) {
  for (;;) pause();
  return unused;
}

static void waste(int what) {
  pthread_t thread;
  if (what == 1) TRITONSERVER_LogMessage(0, "wastes_test.c", 1, "an execution without end begins");
  if (what == 4) TRITONSERVER_LogMessage(0, "wastes_test.c", 4, "a request is kept");
  for (; what == 1;) pause();
  for (; what == 2;) memset(malloc(1 << 24), 1, 1 << 24);
  for (int i = 0; what == 3 && i < 10; i++) {
    pthread_create(&thread, NULL, sleep_on, NULL);
    if (open("/dev/null", O_RDONLY) < 0) abort();
    memset(malloc(1 << 20), 1, 1 << 20);
  }
}

static void wait_until_cancelled(Request *q) {
  bool cancelled = false;
  TRITONSERVER_LogMessage(0, "wastes_test.c", 5, "a request waits to be cancelled");
  while (TRITONBACKEND_RequestIsCancelled(q, &cancelled) == NULL && !cancelled)
    nanosleep(&(struct timespec){0, 1000000}, NULL);
  TRITONSERVER_LogMessage(0, "wastes_test.c", 5, "the request was cancelled");
}

Error *TRITONBACKEND_ModelInstanceExecute(Instance *i, Request **requests, uint32_t count) {
  for (uint32_t k = 0; k < count; k++) {
    int what = (int)first_value(requests[k]);
    waste(what);
    if (what == 5) wait_until_cancelled(requests[k]);
    Response *r, *kept;
    if (what == 3) TRITONBACKEND_ResponseNew(&kept, requests[k]);
    TRITONBACKEND_ResponseNew(&r, requests[k]);
    copy(requests[k], r, "OUT");
    TRITONBACKEND_ResponseSend(r, FINAL, NULL);
    if (what != 4) TRITONBACKEND_RequestRelease(requests[k], ALL);
  }
  return NULL;
}
