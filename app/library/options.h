// The parts of the library that are in C.
#ifndef NT_LIBRARY_OPTIONS_H
#define NT_LIBRARY_OPTIONS_H

#include "shim.h"

typedef struct TRITONSERVER_ServerOptions TRITONSERVER_ServerOptions;
typedef struct TRITONSERVER_Metrics TRITONSERVER_Metrics;

// The options of a server are a command line of nereid serve.
struct TRITONSERVER_ServerOptions {
  char **args;
  uint32_t count;
  bool no_metrics;
};

struct TRITONSERVER_Metrics {
  TRITONSERVER_Message text;
};

enum { CONTROL_NONE, CONTROL_POLL, CONTROL_EXPLICIT };
enum { INDEX_READY = 1, BATCH_UNKNOWN = 1, BATCH_FIRST_DIM = 2, METRIC_PROMETHEUS = 0 };

// option adds an argument; format is printf's.
error option(TRITONSERVER_ServerOptions *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
// option_text adds an argument.
void option_text(TRITONSERVER_ServerOptions *o, const char *text);
// library_path returns the path of this library.
const char *library_path(void);

// These are in the shim.
error TRITONSERVER_MessageNewFromSerializedJson(TRITONSERVER_Message **m, const char *text, size_t size);

#endif
