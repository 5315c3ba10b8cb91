// What the shim asks of the process that hosts it. The functions are in Go (host.go). They may be called from any
// thread. Texts that they return are malloc's and the caller's.
#ifndef NT_TRITON_HOST_H
#define NT_TRITON_HOST_H

#include "api.h"

// host_wake says that there are events outside of an execution.
void host_wake(void);
// host_reserve returns memory that the server can read, and its number; 0: there is none. host_unreserve frees it.
uint64_t host_reserve(uint64_t size, void **data);
void host_unreserve(uint64_t number);
// host_normalize completes a configuration that a model has set.
TRITONSERVER_Error *host_normalize(const char *text, size_t size, char **whole);
void host_log(int level, const char *file, int line, const char *text);
bool host_logs(int level);

// host_activity records what a backend does with a traced request, at nanoseconds of the monotonic clock.
void host_activity(uint64_t handle, uint64_t time, const char *name);

// host_label returns a label of an output; NULL: there is none. host_forget_labels says that it is not called any more.
char *host_label(uint64_t labels, const char *output, size_t class);
void host_forget_labels(uint64_t labels);

// host_context returns the context of a trace with an activity added, by its time.
char *host_context(const char *context, uint64_t time, const char *name);

// host_find_model returns an error if a server knows that it cannot take requests for a model. It sets the priorities
// if the server knows them.
TRITONSERVER_Error *host_find_model(TRITONSERVER_Server *s, const char *name, int64_t version, priorities *p);
// host_infer sends a request to a server; its answers come by nt_answer. answering: the caller is in nt_answer.
// host_cancel cancels it.
TRITONSERVER_Error *host_infer(TRITONSERVER_Server *s, TRITONSERVER_InferenceRequest *q, bool answering);
void host_cancel(uint64_t number);
TRITONSERVER_Error *host_model_ready(TRITONSERVER_Server *s, const char *name, int64_t version, bool *ready);
TRITONSERVER_Error *host_model_decoupled(
    TRITONSERVER_Server *s, const char *name, int64_t version, bool *decoupled);
bool host_live(TRITONSERVER_Server *s);
bool host_ready(TRITONSERVER_Server *s);
TRITONSERVER_Error *host_load(
    TRITONSERVER_Server *s, const char *name, const TRITONSERVER_Parameter **parameters, uint64_t count);
TRITONSERVER_Error *host_unload(TRITONSERVER_Server *s, const char *name, bool dependents);

// The server's numbers of metric families and metrics.
TRITONSERVER_Error *host_family_new(int kind, const char *name, const char *description, uint64_t *number);
TRITONSERVER_Error *host_metric_new(uint64_t family, const TRITONSERVER_Parameter **labels, uint64_t count,
    const double *buckets, uint64_t bucket_count, uint64_t *number);
TRITONSERVER_Error *host_metric_delete(uint64_t number, bool family);
TRITONSERVER_Error *host_metric_value(uint64_t number, double *value);
// op: 1 increments, 2 sets, 3 observes.
void host_metric_change(uint64_t number, uint32_t op, double value);

#endif
