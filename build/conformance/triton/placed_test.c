// A backend that prefers instance groups, and logs its settings and where its instances are. An instance of the model
// "together" waits until another one initializes at the same time. A file "tired" in the folder of a model says that its
// instances are not ready.

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "triton.h"

enum { CPU = 1, GPU = 2 };

Error *TRITONBACKEND_GetBackendAttribute(Backend *b, Attribute *a) {
  uint64_t devices[] = {7, 1};
  TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(a, false);
  TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(a, GPU, 2, devices, 2);
  TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(a, CPU, 3, NULL, 0);
  return TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(a, CPU, 4, NULL, 0);
}

static void say(const char *text) { TRITONSERVER_LogMessage(0, "placed_test.c", 1, text); }

// remember allocates memory of the CPU, uses and frees it. Memory of other kinds is refused.
static Error *remember(Manager *m) {
  enum { BYTES = 1 << 20, PINNED = 1 };
  void *data;
  Error *e = TRITONBACKEND_MemoryManagerAllocate(m, &data, 0, 0, BYTES);
  if (e != NULL) return e;
  memset(data, 1, BYTES);
  e = TRITONBACKEND_MemoryManagerFree(m, data, 0, 0);
  if (e != NULL) return e;
  e = TRITONBACKEND_MemoryManagerAllocate(m, &data, PINNED, 0, BYTES);
  if (e == NULL) return TRITONSERVER_ErrorNew(1, "there is pinned memory");
  say(TRITONSERVER_ErrorMessage(e));
  TRITONSERVER_ErrorDelete(e);
  return NULL;
}

Error *TRITONBACKEND_Initialize(Backend *b) {
  char text[1000];
  const char *settings;
  size_t size;
  Message *config;
  Manager *m;
  TRITONBACKEND_BackendConfig(b, &config);
  TRITONSERVER_MessageSerializeToJson(config, &settings, &size);
  snprintf(text, sizeof text, "the settings are %.*s", (int)size, settings);
  say(text);
  TRITONBACKEND_BackendMemoryManager(b, &m);
  return remember(m);
}

// meet returns when two instances of a model have called it. Each makes a file in the folder of the model.
static Error *meet(Model *m, const char *instance) {
  const char *folder;
  char file[2][400];
  int type;
  TRITONBACKEND_ModelRepository(m, &type, &folder);
  for (int n = 0; n < 2; n++) snprintf(file[n], sizeof file[n], "%s/together_%d.met", folder, n);
  fclose(fopen(file[strstr(instance, "_1") != NULL], "w"));
  for (int n = 0; n < 3000; n++) {
    if (access(file[0], F_OK) == 0 && access(file[1], F_OK) == 0) return NULL;
    nanosleep(&(struct timespec){0, 10000000}, NULL);
  }
  return TRITONSERVER_ErrorNew(1, "the other instance does not initialize meanwhile");
}

static void log_place(Instance *i, const char *name) {
  char text[400];
  const char *policy;
  size_t size;
  int32_t device;
  int kind;
  bool passive;
  Message *m;
  TRITONBACKEND_ModelInstanceKind(i, &kind);
  TRITONBACKEND_ModelInstanceDeviceId(i, &device);
  TRITONBACKEND_ModelInstanceIsPassive(i, &passive);
  TRITONBACKEND_ModelInstanceHostPolicy(i, &m);
  TRITONSERVER_MessageSerializeToJson(m, &policy, &size);
  snprintf(text, sizeof text, "%s is of kind %d on device %d, passive %d, policy %.*s", name, kind, (int)device,
      passive, (int)size, policy);
  say(text);
}

static Error *log_devices(Instance *i) {
  const char *kind;
  char text[200];
  uint32_t count;
  int64_t id;
  TRITONBACKEND_ModelInstanceSecondaryDeviceCount(i, &count);
  for (uint32_t n = 0; n < count; n++) {
    TRITONBACKEND_ModelInstanceSecondaryDeviceProperties(i, n, &kind, &id);
    snprintf(text, sizeof text, "device %u of %u is %s %d", n, count, kind, (int)id);
    say(text);
  }
  Error *e = TRITONBACKEND_ModelInstanceSecondaryDeviceProperties(i, count, &kind, &id);
  if (e == NULL) return TRITONSERVER_ErrorNew(1, "there is a device too many");
  TRITONSERVER_ErrorDelete(e);
  return NULL;
}

Error *TRITONBACKEND_ModelInstanceInitialize(Instance *i) {
  Model *m;
  const char *model, *name;
  TRITONBACKEND_ModelInstanceModel(i, &m);
  TRITONBACKEND_ModelName(m, &model);
  TRITONBACKEND_ModelInstanceName(i, &name);
  log_place(i, name);
  Error *e = log_devices(i);
  return e == NULL && strcmp(model, "together") == 0 ? meet(m, name) : e;
}

Error *TRITONBACKEND_ModelInstanceReady(Instance *i) {
  Model *m;
  const char *folder;
  char file[400];
  int type;
  TRITONBACKEND_ModelInstanceModel(i, &m);
  TRITONBACKEND_ModelRepository(m, &type, &folder);
  snprintf(file, sizeof file, "%s/tired", folder);
  return access(file, F_OK) == 0 ? TRITONSERVER_ErrorNew(4, "the instance is tired") : NULL;
}

Error *TRITONBACKEND_ModelInstanceExecute(Instance *i, Request **requests, uint32_t count) {
  return TRITONSERVER_ErrorNew(5, "this backend executes nothing");
}
