// A backend that reads the text of an error after it has deleted it. Without the address sanitizer nobody notices.

#include "triton.h"

Error *TRITONBACKEND_ModelInstanceExecute(Instance *i, Request **requests, uint32_t count) {
  Error *e = TRITONSERVER_ErrorNew(1, "a text");
  const char *text = TRITONSERVER_ErrorMessage(e);
  TRITONSERVER_ErrorDelete(e);
  char *copy = strdup(text);
  free(copy);
  return TRITONSERVER_ErrorNew(1, "nobody has noticed");
}
