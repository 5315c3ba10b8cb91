// Requests of a backend to other models, and of a program to the server in it.
#ifndef NT_TRITON_CLIENT_H
#define NT_TRITON_CLIENT_H

#include "object.h"

// A piece of an input's data, which is the caller's until the request is released.
typedef struct {
  const void *data;
  size_t size;
} piece;

typedef struct {
  char *name;
  int type;
  int64_t *shape;
  uint64_t dims;
  piece *pieces;
  uint32_t piece_count;
  uint64_t size;  // of all pieces
} client_input;

struct TRITONSERVER_InferenceRequest {
  char *model, *id, *correlation_text;
  int64_t version;
  uint64_t correlation, priority, timeout;
  priorities priorities;  // of the model, when the request was made
  uint32_t flags;
  client_input *inputs;
  char **outputs;
  TRITONSERVER_Parameter *parameters;
  uint32_t input_count, output_count, parameter_count;
  release_function release;
  void *release_userp;
  TRITONSERVER_ResponseAllocator *allocator;
  void *allocator_userp;
  response_function respond;
  void *respond_userp;
  TRITONSERVER_InferenceTrace *trace;  // while it is being sent; NULL: it is not traced
  _Atomic uint64_t sent;  // Go's number; 0: it was not sent
  atomic_bool cancelled;
  bool raw;     // its one input has only data; the model says what it is
  bool prompt;  // answers that are there when it is sent may be given on the thread that sends it
};

struct TRITONSERVER_ResponseAllocator {
  allocate_function allocate;
  free_function free;
  // These may be NULL.
  start_function start;
  query_function query;
  attributes_function attributes;
};

typedef struct {
  const char *name;
  int type;
  const int64_t *shape;
  uint32_t dims;
  void *data, *userp;
  uint64_t size;
  int memory;
  int64_t memory_id;
} client_output;

struct TRITONSERVER_InferenceResponse {
  char *record;  // the memory of all texts and shapes
  const char *model, *id;
  int64_t version;
  TRITONSERVER_ResponseAllocator *allocator;
  client_output *outputs;
  TRITONSERVER_Parameter *parameters;
  uint32_t output_count, parameter_count;
  uint64_t labels;  // Go's number of the model that has labels for its outputs; 0: it has none
  char **label_texts;
  uint32_t label_count;
  error failure;
};

// nt_new_request makes a request without a look whether there is such a model.
TRITONSERVER_InferenceRequest *nt_new_request(const char *model, int64_t version);
// nt_answering says that this thread is in nt_answer.
extern _Thread_local bool nt_answering;
// nt_answer gives the sender of a request a response from a record, or, with no record, only flags. The response is the
// sender's. With RESPONSE_FINAL the request is released first, by its release function, and q must not be used then.
void nt_answer(TRITONSERVER_InferenceRequest *q, const char *record, uint64_t size, uint32_t flags);

#endif
