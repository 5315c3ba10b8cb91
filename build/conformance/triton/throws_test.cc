// A backend in C++ that throws an exception where the first value of a request, or the model's name, says.

#include <stdexcept>
#include <string>
#include <thread>

extern "C" {
#include "triton.h"

Error *TRITONBACKEND_ModelName(Model *, const char **);

Error *TRITONBACKEND_ModelInitialize(Model *m) {
  const char *name;
  TRITONBACKEND_ModelName(m, &name);
  if (std::string(name) == "throws_at_once") throw std::runtime_error("thrown while it initializes");
  return nullptr;
}

Error *TRITONBACKEND_ModelInstanceExecute(Instance *i, Request **requests, uint32_t count) {
  for (uint32_t k = 0; k < count; k++) {
    float cause = first_value(requests[k]);
    if (cause == 1) throw std::runtime_error("thrown in the execution");
    if (cause == 2) std::thread([] { throw std::runtime_error("thrown on a thread"); }).join();
    Response *r;
    TRITONBACKEND_ResponseNew(&r, requests[k]);
    copy(requests[k], r, "OUT");
    TRITONBACKEND_ResponseSend(r, FINAL, nullptr);
    TRITONBACKEND_RequestRelease(requests[k], ALL);
  }
  return nullptr;
}
}
