// The traces that a program makes for its requests. The shim has what is done with them.

#include "options.h"

static error new_trace(TRITONSERVER_InferenceTrace **made, const TRITONSERVER_InferenceTrace *like, uint64_t parent) {
  NEED(made, "place for the trace");
  NEED(like->release, "function that releases the trace");
  *made = nt_new_trace(like, parent);
  return NULL;
}

error TRITONSERVER_InferenceTraceNew(TRITONSERVER_InferenceTrace **made, int level, uint64_t parent,
    activity_function activity, trace_release_function release, void *userp) {
  TRITONSERVER_InferenceTrace like = {.level = level, .activity = activity, .release = release, .userp = userp};
  return new_trace(made, &like, parent);
}

error TRITONSERVER_InferenceTraceTensorNew(TRITONSERVER_InferenceTrace **made, int level, uint64_t parent,
    activity_function activity, tensor_activity_function tensor, trace_release_function release, void *userp) {
  TRITONSERVER_InferenceTrace like = {
      .level = level, .activity = activity, .tensor = tensor, .release = release, .userp = userp};
  return new_trace(made, &like, parent);
}
