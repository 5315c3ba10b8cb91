// What the opaque pointers of the API point to, and what the parts of the shim share.
//
// Threads: a library may call the API from any thread. Requests, inputs and parameters do not change after they are
// handed to it, except for their counts and flags, which are atomic. A response belongs to one thread at a time.
#ifndef NT_TRITON_OBJECT_H
#define NT_TRITON_OBJECT_H

#include <stdatomic.h>

#include "api.h"

typedef TRITONSERVER_Error *error;

// A server. Go finds its Server with the handle; 0: it is the Host.
struct TRITONSERVER_Server {
  uintptr_t handle;
};

struct TRITONSERVER_Error {
  int code;
  char *text;
};

struct TRITONSERVER_Message {
  char *text;
  size_t size;
};

// A parameter of a request or of a response. The value is a text, or one of the numbers.
struct TRITONSERVER_Parameter {
  char *name;
  int type;
  uint64_t size;  // of the text or bytes, without the zero behind it
  char *text;
  int64_t integer;
  double real;
  bool flag;
};

struct TRITONSERVER_BufferAttributes {
  size_t size;
  int memory;
  int64_t memory_id;
  void *cuda_handle;
};

// One backend library.
struct TRITONBACKEND_Backend {
  char *name, *folder;
  TRITONSERVER_Message config;
  int policy;
  void *state;
};

// What a backend prefers where the configuration says nothing.
struct TRITONBACKEND_Attribute {
  struct {
    int kind;
    uint64_t count, *devices, device_count;
  } groups[16];
  uint32_t group_count;
};

// An implicit state that a model has. input: the input that has its value before, if both share a buffer; else NULL.
typedef struct {
  char *name, *input;
} state_rule;

struct TRITONBACKEND_Model {
  TRITONBACKEND_Backend *backend;
  char *name, *folder;
  uint64_t version;
  TRITONSERVER_Message config;
  bool completes;  // its configuration may be completed
  bool changed;    // it has been
  void *state;
  state_rule *states;  // the implicit states of its sequences
  uint32_t state_count;
};

// the_model is the model of this process; NULL: there is none yet.
extern TRITONBACKEND_Model *the_model;

struct TRITONBACKEND_ModelInstance {
  TRITONBACKEND_Model *model;
  char *name;
  int kind, device;
  bool passive;
  TRITONSERVER_Message host_policy;
  char **profiles;
  struct {
    char *kind;
    int64_t id;
  } *secondary;  // devices
  uint32_t profile_count, secondary_count;
  void *state;
};

struct TRITONBACKEND_Input {
  const char *name;
  int type;
  const int64_t *shape;
  uint32_t dims;
  uint64_t size;
  const void *data;
  TRITONSERVER_BufferAttributes attributes;
};

// An entry of the queue to Go. It is the first member of the struct of each kind of event.
typedef struct event {
  struct event *next;
  enum { EVENT_RESPONSE, EVENT_RELEASE, EVENT_REPORT } kind;
} event;

// What a report is about. Go has the same numbers (infer.ReportKind).
enum report_kind {
  REPORT_SUCCEEDED,
  REPORT_FAILED,
  REPORT_EXECUTED,
  REPORT_RESPONSE,
  REPORT_RESPONSE_EMPTY,
  REPORT_RESPONSE_FAILED,
  REPORT_RESPONSE_CANCELLED
};

// What a backend reports of a request, an execution or a response.
typedef struct {
  event reported;
  enum report_kind what;
  uint64_t handle;  // of the request
  uint64_t n;       // the batch size, or the place of the response in its stream
  uint64_t times[4];
} report;

// The trace of a request.
struct TRITONSERVER_InferenceTrace {
  enum {
    TRACE_OF_BACKEND,  // of a request that a backend executes, and a part of that
    TRACE_OF_CALL,     // a child of it, for a request that the backend makes
    TRACE_OF_PROGRAM   // a program's, or a child of it
  } kind;
  uint64_t handle;  // Go's number of the backend's request; 0: the request is not traced
  uint64_t number;  // the server's; 0: not known
  uint64_t parent;  // the number of the parent; 0: there is none, or it is not known
  // The texts are its own, except the model and the id of TRACE_OF_BACKEND. NULL: not known.
  char *model, *id, *context;
  int64_t version;
  // These are for TRACE_OF_PROGRAM. The last one is given the trace at its end, and deletes it.
  int level;
  activity_function activity;
  tensor_activity_function tensor;
  trace_release_function release;
  void *userp;
};

// A request that a backend executes.
struct TRITONBACKEND_Request {
  event released;
  uint32_t release_flags;
  uint64_t handle;  // Go's number
  atomic_int refs;  // the backend's until it releases it, Go's until the final response, responses and factories
  atomic_bool cancelled, gone;  // gone: the backend has released it
  char *record;  // the memory of all texts, shapes and small inputs
  TRITONSERVER_InferenceTrace trace;
  const char *id, *correlation_text;
  uint64_t correlation, timeout, priority;
  uint32_t flags;
  TRITONBACKEND_Input *inputs;
  TRITONSERVER_Parameter *parameters;
  const char **outputs;
  TRITONBACKEND_State **states;  // which the backend has made; they are freed with the request
  uint32_t input_count, output_count, parameter_count, state_count;
  _Atomic uint64_t reported;  // responses
};

// A state that follows the request in its sequence.
struct TRITONBACKEND_State {
  TRITONBACKEND_Output *value;
  const TRITONBACKEND_Input *before;  // the value before, which its buffer begins with; NULL: it begins with anything
  bool updated;  // the backend has set it
};

// An output of a response, or the value of a state.
struct TRITONBACKEND_Output {
  char *name;
  int type;
  int64_t *shape;
  uint32_t dims;
  void *data;
  uint64_t size;
  uint64_t reserved;  // Go's number of shared memory; 0: data is malloc's
  TRITONSERVER_BufferAttributes attributes;
};

struct TRITONBACKEND_Response {
  event sent;
  TRITONBACKEND_Request *request;
  TRITONBACKEND_Output **outputs;
  TRITONSERVER_Parameter *parameters;
  uint32_t output_count, parameter_count;
  error failure;
  uint32_t flags;
  bool empty;  // only flags were sent
};

struct TRITONBACKEND_ResponseFactory {
  TRITONBACKEND_Request *request;
};

// new_error makes an error; format is printf's.
error new_error(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
// NEED makes the function return an error when a pointer of the caller's is NULL.
#define NEED(p, what) \
  if ((p) == NULL) return new_error(CODE_INVALID_ARG, "the %s is NULL", what)
// copy_text returns a copy, NULL of NULL.
char *copy_text(const char *text);
// must_have ends the process when memory is exhausted: nothing here could go on.
void *must_have(void *memory);
// set_message replaces a message's text by a copy.
void set_message(TRITONSERVER_Message *m, const char *text, size_t size);
// clear_parameter frees what a parameter owns.
void clear_parameter(TRITONSERVER_Parameter *p);

// parameter_value returns the address of a parameter's value.
const void *parameter_value(const TRITONSERVER_Parameter *p);

// new_output makes an output without data, and free_output frees it with its data.
TRITONBACKEND_Output *new_output(const char *name, int type, const int64_t *shape, uint32_t dims);
void free_output(TRITONBACKEND_Output *o);
// clear_trace frees the context of a TRACE_OF_BACKEND, and all texts of the others.
void clear_trace(TRITONSERVER_InferenceTrace *t);
// free_states frees the states of a request.
void free_states(TRITONBACKEND_Request *q);
// new_data makes the memory of an output, which the server can read. Arguments: those of TRITONBACKEND_OutputBuffer.
error new_data(TRITONBACKEND_Output *o, void **data, uint64_t size, int *memory, int64_t *memory_id);
// push_event hands an event to Go. Events of one thread stay in order.
void push_event(event *e);
// retain_request and release_request count references; the last one frees it.
void retain_request(TRITONBACKEND_Request *q);
void release_request(TRITONBACKEND_Request *q);

#endif
