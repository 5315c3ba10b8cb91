// Functions that this library does not have. Programs that name them can be linked, and get an error.

#include "options.h"

#define MISSING(name) \
  error name(void) { return new_error(CODE_UNSUPPORTED, "%s is not supported by this library", #name); }

MISSING(TRITONSERVER_InferenceTraceNew)
MISSING(TRITONSERVER_InferenceTraceParentId)
MISSING(TRITONSERVER_InferenceTraceSetContext)
MISSING(TRITONSERVER_InferenceTraceTensorNew)
MISSING(TRITONSERVER_ServerPollModelRepository)
MISSING(TRITONSERVER_ServerSetExitTimeout)
