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

#endif
