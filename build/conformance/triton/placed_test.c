// A backend that logs the secondary devices of its instances.

#include <stdio.h>

#include "triton.h"

Error *TRITONBACKEND_ModelInstanceInitialize(Instance *i) {
  const char *kind;
  char text[200];
  uint32_t count;
  int64_t id;
  TRITONBACKEND_ModelInstanceSecondaryDeviceCount(i, &count);
  for (uint32_t n = 0; n < count; n++) {
    TRITONBACKEND_ModelInstanceSecondaryDeviceProperties(i, n, &kind, &id);
    snprintf(text, sizeof text, "device %u of %u is %s %d", n, count, kind, (int)id);
    TRITONSERVER_LogMessage(0, "placed_test.c", 1, text);
  }
  Error *e = TRITONBACKEND_ModelInstanceSecondaryDeviceProperties(i, count, &kind, &id);
  if (e == NULL) return TRITONSERVER_ErrorNew(1, "there is a device too many");
  TRITONSERVER_ErrorDelete(e);
  return NULL;
}

Error *TRITONBACKEND_ModelInstanceExecute(Instance *i, Request **requests, uint32_t count) {
  return TRITONSERVER_ErrorNew(5, "this backend executes nothing");
}
