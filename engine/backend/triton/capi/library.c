// Backend libraries: how they are opened, and their entry points.

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

void *nt_open(const char *path, bool global, char **why) {
  void *library = dlopen(path, RTLD_LAZY | (global ? RTLD_GLOBAL : RTLD_LOCAL));
  if (library == NULL) *why = copy_text(dlerror());
  return library;
}

void nt_find_entries(void *library, nt_entries *e) {
  // POSIX lets a void pointer be read as a function's.
  *(void **)&e->initialize = dlsym(library, "TRITONBACKEND_Initialize");
  *(void **)&e->finalize = dlsym(library, "TRITONBACKEND_Finalize");
  *(void **)&e->attribute = dlsym(library, "TRITONBACKEND_GetBackendAttribute");
  *(void **)&e->model_initialize = dlsym(library, "TRITONBACKEND_ModelInitialize");
  *(void **)&e->model_finalize = dlsym(library, "TRITONBACKEND_ModelFinalize");
  *(void **)&e->instance_initialize = dlsym(library, "TRITONBACKEND_ModelInstanceInitialize");
  *(void **)&e->instance_finalize = dlsym(library, "TRITONBACKEND_ModelInstanceFinalize");
  *(void **)&e->instance_ready = dlsym(library, "TRITONBACKEND_ModelInstanceReady");
  *(void **)&e->execute = dlsym(library, "TRITONBACKEND_ModelInstanceExecute");
}

error nt_backend_initialize(const nt_entries *e, TRITONBACKEND_Backend *b, TRITONBACKEND_BackendAttribute *a) {
  error failure = e->initialize == NULL ? NULL : e->initialize(b);
  if (failure == NULL && e->attribute != NULL) failure = e->attribute(b, a);
  return failure;
}

error nt_backend_finalize(const nt_entries *e, TRITONBACKEND_Backend *b) {
  return e->finalize == NULL ? NULL : e->finalize(b);
}

error nt_model_initialize(const nt_entries *e, TRITONBACKEND_Model *m) {
  return e->model_initialize == NULL ? NULL : e->model_initialize(m);
}

error nt_model_finalize(const nt_entries *e, TRITONBACKEND_Model *m) {
  return e->model_finalize == NULL ? NULL : e->model_finalize(m);
}

error nt_instance_initialize(const nt_entries *e, TRITONBACKEND_ModelInstance *i) {
  return e->instance_initialize == NULL ? NULL : e->instance_initialize(i);
}

error nt_instance_finalize(const nt_entries *e, TRITONBACKEND_ModelInstance *i) {
  return e->instance_finalize == NULL ? NULL : e->instance_finalize(i);
}

error nt_instance_ready(const nt_entries *e, TRITONBACKEND_ModelInstance *i) {
  return e->instance_ready == NULL ? NULL : e->instance_ready(i);
}

void nt_make_requests(const char *records, TRITONBACKEND_Request **made, uint32_t count) {
  for (uint32_t k = 0; k < count; k++) {
    uint64_t size;
    memcpy(&size, records, sizeof size);
    made[k] = nt_request(records + sizeof size, size);
    records += sizeof size + size;
  }
}

error nt_execute(const nt_entries *e, TRITONBACKEND_ModelInstance *i, TRITONBACKEND_Request **requests,
    uint32_t count, bool streams) {
  nt_executing(!streams);
  error failure = e->execute(i, requests, count);
  nt_executing(false);
  return failure;
}

error nt_error(int code, const char *text) { return new_error(code, "%s", text); }

void nt_message(TRITONSERVER_Message *m, const char *text) { set_message(m, text, strlen(text)); }

TRITONBACKEND_Backend *nt_new_backend(const char *name, const char *folder, const char *config) {
  TRITONBACKEND_Backend *b = must_have(calloc(1, sizeof *b));
  b->name = copy_text(name);
  b->folder = copy_text(folder);
  nt_message(&b->config, config);
  return b;
}

TRITONBACKEND_Model *nt_new_model(TRITONBACKEND_Backend *b, const char *name, const char *folder, uint64_t version,
    const char *config, bool completes) {
  TRITONBACKEND_Model *m = must_have(calloc(1, sizeof *m));
  m->backend = b;
  m->name = copy_text(name);
  m->folder = copy_text(folder);
  m->version = version;
  m->completes = completes;
  nt_message(&m->config, config);
  the_model = m;
  return m;
}

TRITONBACKEND_ModelInstance *nt_new_instance(
    TRITONBACKEND_Model *m, const char *name, int kind, int device, bool passive, const char *policy) {
  TRITONBACKEND_ModelInstance *i = must_have(calloc(1, sizeof *i));
  i->model = m;
  i->name = copy_text(name);
  i->kind = kind;
  i->device = device;
  i->passive = passive;
  nt_message(&i->host_policy, policy);
  return i;
}

void nt_add_profile(TRITONBACKEND_ModelInstance *i, const char *name) {
  i->profiles = must_have(realloc(i->profiles, (i->profile_count + 1) * sizeof *i->profiles));
  i->profiles[i->profile_count++] = copy_text(name);
}

void nt_add_secondary(TRITONBACKEND_ModelInstance *i, const char *kind, int64_t id) {
  i->secondary = must_have(realloc(i->secondary, (i->secondary_count + 1) * sizeof *i->secondary));
  i->secondary[i->secondary_count].kind = copy_text(kind);
  i->secondary[i->secondary_count++].id = id;
}

const char *gnu_get_libc_version(void);

const char *nt_glibc(void) { return gnu_get_libc_version(); }
