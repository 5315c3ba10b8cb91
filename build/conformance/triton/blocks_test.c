// A backend with the execution policy DEVICE_BLOCKING: one thread for all instances of a device. It answers with the
// input. Executions on one device report that they overlap, by a lock on a file beside the model. An input of 2 waits
// until another instance executes one, so that both must be able to.

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "triton.h"

Error *TRITONBACKEND_BackendSetExecutionPolicy(Backend *, int policy);
Error *TRITONBACKEND_BackendExecutionPolicy(Backend *, int *policy);
Error *TRITONBACKEND_ModelInstanceDeviceId(Instance *, int32_t *);
Error *TRITONBACKEND_ModelRepository(Model *, int *type, const char **folder);

enum { DEVICE_BLOCKING = 1 };

Error *TRITONBACKEND_Initialize(Backend *b) {
  int policy;
  TRITONBACKEND_BackendSetExecutionPolicy(b, DEVICE_BLOCKING);
  TRITONBACKEND_BackendExecutionPolicy(b, &policy);
  return policy == DEVICE_BLOCKING ? NULL : TRITONSERVER_ErrorNew(1, "the policy is not kept");
}

// meet waits until two processes are in it.
static void meet(const char *folder) {
  char path[600];
  snprintf(path, sizeof path, "%s/%d.meets", folder, (int)getpid());
  close(open(path, O_CREAT | O_WRONLY, 0600));
  snprintf(path, sizeof path, "%s/*.meets", folder);
  for (size_t met = 0; met < 2; usleep(1000)) {
    glob_t found;
    met = glob(path, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
    globfree(&found);
  }
}

Error *TRITONBACKEND_ModelInstanceExecute(Instance *i, Request **requests, uint32_t count) {
  Model *m;
  const char *folder;
  char path[600];
  int type;
  int32_t device;
  TRITONBACKEND_ModelInstanceModel(i, &m);
  TRITONBACKEND_ModelRepository(m, &type, &folder);
  TRITONBACKEND_ModelInstanceDeviceId(i, &device);
  snprintf(path, sizeof path, "%s/device%d", folder, (int)device);
  int file = open(path, O_CREAT | O_WRONLY, 0600);
  for (uint32_t k = 0; k < count; k++) {
    Error *e = NULL;
    Response *r;
    if (first_value(requests[k]) == 2)
      meet(folder);
    else if (flock(file, LOCK_EX | LOCK_NB) != 0)
      e = TRITONSERVER_ErrorNew(1, "another instance of the device executes");
    usleep(1000);
    flock(file, LOCK_UN);
    TRITONBACKEND_ResponseNew(&r, requests[k]);
    copy(requests[k], r, "OUT");
    TRITONBACKEND_ResponseSend(r, FINAL, e);
    if (e != NULL) TRITONSERVER_ErrorDelete(e);
    TRITONBACKEND_RequestRelease(requests[k], ALL);
  }
  close(file);
  return NULL;
}
