// What Go calls.
#ifndef NT_TRITON_SHIM_H
#define NT_TRITON_SHIM_H

#include "object.h"

// function is one name of the API: where it is in this process, and whether it does what Triton's does.
typedef struct {
  const char *name;
  void *address;
  bool built;
} nt_function;

// nt_functions returns all names, and their count.
const nt_function *nt_functions(size_t *count);

// nt_open opens a library. global: its names can be used by libraries that are opened later. The error is malloc's.
void *nt_open(const char *path, bool global, char **why);

// Entry points of a backend library. Each may be missing.
typedef struct {
  error (*initialize)(TRITONBACKEND_Backend *);
  error (*finalize)(TRITONBACKEND_Backend *);
  error (*attribute)(TRITONBACKEND_Backend *, TRITONBACKEND_BackendAttribute *);
  error (*model_initialize)(TRITONBACKEND_Model *);
  error (*model_finalize)(TRITONBACKEND_Model *);
  error (*instance_initialize)(TRITONBACKEND_ModelInstance *);
  error (*instance_finalize)(TRITONBACKEND_ModelInstance *);
  error (*instance_ready)(TRITONBACKEND_ModelInstance *);
  error (*execute)(TRITONBACKEND_ModelInstance *, TRITONBACKEND_Request **, uint32_t);
} nt_entries;

void nt_find_entries(void *library, nt_entries *e);

// These call an entry point. One that is missing succeeds, except for nt_execute.
error nt_backend_initialize(const nt_entries *e, TRITONBACKEND_Backend *b, TRITONBACKEND_BackendAttribute *a);
error nt_backend_finalize(const nt_entries *e, TRITONBACKEND_Backend *b);
error nt_model_initialize(const nt_entries *e, TRITONBACKEND_Model *m);
error nt_model_finalize(const nt_entries *e, TRITONBACKEND_Model *m);
error nt_instance_initialize(const nt_entries *e, TRITONBACKEND_ModelInstance *i);
error nt_instance_finalize(const nt_entries *e, TRITONBACKEND_ModelInstance *i);
error nt_instance_ready(const nt_entries *e, TRITONBACKEND_ModelInstance *i);

// nt_request makes a request from a record. Go and the backend have one reference each.
TRITONBACKEND_Request *nt_request(const char *record, uint64_t size);
void nt_cancel(TRITONBACKEND_Request *q);
// nt_make_requests makes requests from consecutive records, each behind its size.
void nt_make_requests(const char *records, TRITONBACKEND_Request **made, uint32_t count);
// nt_execute executes requests. With streams, Go is woken for events of this thread too; see nt_executing. On an error
// the backend has taken none of the requests, and its references on them are the caller's.
error nt_execute(const nt_entries *e, TRITONBACKEND_ModelInstance *i, TRITONBACKEND_Request **requests,
    uint32_t count, bool streams);
// nt_take_events returns what has happened since the last call, as a list that is the caller's.
event *nt_take_events(void);
void nt_free_response(TRITONBACKEND_Response *r);
// nt_executing says whether the caller takes the events of this thread itself, so that Go is not woken for them.
void nt_executing(bool on);

// nt_new_trace makes a trace of a program with the functions and the level of another one.
TRITONSERVER_InferenceTrace *nt_new_trace(const TRITONSERVER_InferenceTrace *like, uint64_t parent);
// nt_name_trace says which request the trace is of.
void nt_name_trace(TRITONSERVER_InferenceTrace *t, const char *model, int64_t version, const char *id);
// These call the program's functions, if the level of the trace is one for them. After nt_release_trace the trace is
// the program's.
void nt_report(TRITONSERVER_InferenceTrace *t, int activity, uint64_t time);
void nt_report_tensor(TRITONSERVER_InferenceTrace *t, int activity, const char *name, int type, const void *data,
    size_t size, const int64_t *shape, uint64_t dims);
void nt_report_custom(TRITONSERVER_InferenceTrace *t, uint64_t time, const char *name);
void nt_release_trace(TRITONSERVER_InferenceTrace *t);
// nt_monotonic returns nanoseconds of the monotonic clock.
uint64_t nt_monotonic(void);

// The caller has the objects that these make. nt_delete_error frees an error. All others stay until the process ends.
void nt_delete_error(error e);
// nt_glibc returns the version of the C library.
const char *nt_glibc(void);
error nt_error(int code, const char *text);
void nt_message(TRITONSERVER_Message *m, const char *text);
TRITONBACKEND_Backend *nt_new_backend(const char *name, const char *folder, const char *config);
TRITONBACKEND_Model *nt_new_model(TRITONBACKEND_Backend *b, const char *name, const char *folder, uint64_t version,
    const char *config, bool completes);
TRITONBACKEND_ModelInstance *nt_new_instance(
    TRITONBACKEND_Model *m, const char *name, int kind, int device, bool passive, const char *policy);
// nt_add_state adds the output name of an implicit state. Its buffer begins with the data of the input, unless that is
// NULL. It is called before the model is initialized.
void nt_add_state(TRITONBACKEND_Model *m, const char *name, const char *input);
// These are called before the instance is initialized.
void nt_add_profile(TRITONBACKEND_ModelInstance *i, const char *name);
void nt_add_secondary(TRITONBACKEND_ModelInstance *i, const char *kind, int64_t id);

#endif
