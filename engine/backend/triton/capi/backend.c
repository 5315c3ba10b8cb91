// What backends ask about themselves, their model and its instances, and what they report.

#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "object.h"

// The process is the only server that a backend sees.
static TRITONSERVER_Server server;

error TRITONBACKEND_BackendName(TRITONBACKEND_Backend *b, const char **name) {
  *name = b->name;
  return NULL;
}

error TRITONBACKEND_BackendConfig(TRITONBACKEND_Backend *b, TRITONSERVER_Message **config) {
  *config = &b->config;
  return NULL;
}

error TRITONBACKEND_BackendExecutionPolicy(TRITONBACKEND_Backend *b, int *policy) {
  *policy = b->policy;
  return NULL;
}

// The server follows the policy that is set before the model is loaded.
error TRITONBACKEND_BackendSetExecutionPolicy(TRITONBACKEND_Backend *b, int policy) {
  b->policy = policy;
  return NULL;
}

error TRITONBACKEND_BackendArtifacts(TRITONBACKEND_Backend *b, int *type, const char **folder) {
  *type = 0;  // a folder
  *folder = b->folder;
  return NULL;
}

error TRITONBACKEND_BackendState(TRITONBACKEND_Backend *b, void **state) {
  *state = b->state;
  return NULL;
}

error TRITONBACKEND_BackendSetState(TRITONBACKEND_Backend *b, void *state) {
  b->state = state;
  return NULL;
}

error TRITONBACKEND_BackendMemoryManager(TRITONBACKEND_Backend *b, TRITONBACKEND_MemoryManager **manager) {
  *manager = (TRITONBACKEND_MemoryManager *)b;  // it has no state
  return NULL;
}

// Memory of the CPU is what there is. Backends then fall back to it, as in Triton without GPUs.
error TRITONBACKEND_MemoryManagerAllocate(
    TRITONBACKEND_MemoryManager *m, void **buffer, int memory, int64_t id, uint64_t size) {
  if (memory != MEMORY_CPU)
    return new_error(CODE_UNSUPPORTED, "memory of kind %d and device %lld cannot be allocated here; use CPU memory",
        memory, (long long)id);
  if (posix_memalign(buffer, 64, size == 0 ? 1 : size) != 0)
    return new_error(CODE_UNAVAILABLE, "failed to allocate CPU memory of %llu bytes", (unsigned long long)size);
  return NULL;
}

error TRITONBACKEND_MemoryManagerFree(TRITONBACKEND_MemoryManager *m, void *buffer, int memory, int64_t id) {
  if (memory != MEMORY_CPU) return new_error(CODE_UNSUPPORTED, "memory of kind %d was not allocated here", memory);
  free(buffer);
  return NULL;
}

error TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
    TRITONBACKEND_BackendAttribute *a, int kind, uint64_t count, const uint64_t *devices, uint64_t device_count) {
  if (a->group_count == sizeof a->groups / sizeof *a->groups)
    return new_error(CODE_UNSUPPORTED, "a backend may prefer at most %u instance groups", a->group_count);
  if (kind < 0 || kind > KIND_MODEL) return new_error(CODE_INVALID_ARG, "there is no kind %d of instance groups", kind);
  if (devices == NULL) device_count = 0;
  a->groups[a->group_count].kind = kind;
  a->groups[a->group_count].count = count;
  if (device_count > 0) {
    a->groups[a->group_count].devices = must_have(calloc(device_count, sizeof *devices));
    memcpy(a->groups[a->group_count].devices, devices, device_count * sizeof *devices);
  }
  a->groups[a->group_count++].device_count = device_count;
  return NULL;
}

// Each instance is in its own process, so the server makes several at once, whatever the backend says.
error TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(TRITONBACKEND_BackendAttribute *a, bool on) {
  return NULL;
}

error TRITONBACKEND_ModelName(TRITONBACKEND_Model *m, const char **name) {
  *name = m->name;
  return NULL;
}

error TRITONBACKEND_ModelVersion(TRITONBACKEND_Model *m, uint64_t *version) {
  *version = m->version;
  return NULL;
}

error TRITONBACKEND_ModelRepository(TRITONBACKEND_Model *m, int *type, const char **folder) {
  *type = 0;
  *folder = m->folder;
  return NULL;
}

error TRITONBACKEND_ModelConfig(TRITONBACKEND_Model *m, uint32_t version, TRITONSERVER_Message **config) {
  if (version != 1) return new_error(CODE_INVALID_ARG, "model configuration version %u is not supported", version);
  *config = must_have(calloc(1, sizeof **config));  // the caller deletes it
  set_message(*config, m->config.text, m->config.size);
  return NULL;
}

error TRITONBACKEND_ModelAutoCompleteConfig(TRITONBACKEND_Model *m, bool *completes) {
  *completes = m->completes;
  return NULL;
}

error TRITONBACKEND_ModelSetConfig(TRITONBACKEND_Model *m, uint32_t version, TRITONSERVER_Message *config) {
  if (version != 1) return new_error(CODE_INVALID_ARG, "model configuration version %u is not supported", version);
  char *whole = NULL;
  error e = host_normalize(config->text, config->size, &whole);
  if (e != NULL) return e;
  set_message(&m->config, whole, strlen(whole));
  free(whole);
  m->changed = true;
  return NULL;
}

error TRITONBACKEND_ModelServer(TRITONBACKEND_Model *m, TRITONSERVER_Server **s) {
  *s = &server;
  return NULL;
}

error TRITONBACKEND_ModelBackend(TRITONBACKEND_Model *m, TRITONBACKEND_Backend **b) {
  *b = m->backend;
  return NULL;
}

error TRITONBACKEND_ModelState(TRITONBACKEND_Model *m, void **state) {
  *state = m->state;
  return NULL;
}

error TRITONBACKEND_ModelSetState(TRITONBACKEND_Model *m, void *state) {
  m->state = state;
  return NULL;
}

// The server measures the memory of the process itself, and takes nothing from these reports.
error TRITONBACKEND_ModelReportMemoryUsage(
    TRITONBACKEND_Model *m, TRITONSERVER_BufferAttributes **usage, uint32_t count) {
  return NULL;
}

error TRITONBACKEND_ModelInstanceReportMemoryUsage(
    TRITONBACKEND_ModelInstance *i, TRITONSERVER_BufferAttributes **usage, uint32_t count) {
  return NULL;
}

error TRITONBACKEND_ModelInstanceName(TRITONBACKEND_ModelInstance *i, const char **name) {
  *name = i->name;
  return NULL;
}

error TRITONBACKEND_ModelInstanceKind(TRITONBACKEND_ModelInstance *i, int *kind) {
  *kind = i->kind;
  return NULL;
}

error TRITONBACKEND_ModelInstanceDeviceId(TRITONBACKEND_ModelInstance *i, int32_t *device) {
  *device = i->device;
  return NULL;
}

error TRITONBACKEND_ModelInstanceHostPolicy(TRITONBACKEND_ModelInstance *i, TRITONSERVER_Message **policy) {
  *policy = &i->host_policy;
  return NULL;
}

error TRITONBACKEND_ModelInstanceIsPassive(TRITONBACKEND_ModelInstance *i, bool *passive) {
  *passive = i->passive;
  return NULL;
}

error TRITONBACKEND_ModelInstanceProfileCount(TRITONBACKEND_ModelInstance *i, uint32_t *count) {
  *count = i->profile_count;
  return NULL;
}

error TRITONBACKEND_ModelInstanceProfileName(TRITONBACKEND_ModelInstance *i, uint32_t n, const char **name) {
  if (n >= i->profile_count)
    return new_error(CODE_INVALID_ARG, "out of bounds index %u: instance is configured with %u profiles", n,
        i->profile_count);
  *name = i->profiles[n];
  return NULL;
}

error TRITONBACKEND_ModelInstanceSecondaryDeviceCount(TRITONBACKEND_ModelInstance *i, uint32_t *count) {
  *count = i->secondary_count;
  return NULL;
}

error TRITONBACKEND_ModelInstanceSecondaryDeviceProperties(
    TRITONBACKEND_ModelInstance *i, uint32_t n, const char **kind, int64_t *id) {
  if (n >= i->secondary_count)
    return new_error(CODE_INVALID_ARG, "out of bounds index %u: instance is configured with %u secondary devices", n,
        i->secondary_count);
  *kind = i->secondary[n].kind;
  *id = i->secondary[n].id;
  return NULL;
}

error TRITONBACKEND_ModelInstanceModel(TRITONBACKEND_ModelInstance *i, TRITONBACKEND_Model **m) {
  *m = i->model;
  return NULL;
}

error TRITONBACKEND_ModelInstanceState(TRITONBACKEND_ModelInstance *i, void **state) {
  *state = i->state;
  return NULL;
}

error TRITONBACKEND_ModelInstanceSetState(TRITONBACKEND_ModelInstance *i, void *state) {
  i->state = state;
  return NULL;
}

error TRITONSERVER_LogMessage(int level, const char *file, int line, const char *text) {
  host_log(level, file, line, text);
  return NULL;
}

bool TRITONSERVER_LogIsEnabled(int level) { return host_logs(level); }
