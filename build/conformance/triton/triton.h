// The part of Triton's C API that the test backends use, written for them from its documentation.
#ifndef TEST_TRITON_H
#define TEST_TRITON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct TRITONSERVER_Error Error;
typedef struct TRITONSERVER_Message Message;
typedef struct TRITONBACKEND_Backend Backend;
typedef struct TRITONBACKEND_BackendAttribute Attribute;
typedef struct TRITONBACKEND_MemoryManager Manager;
typedef struct TRITONBACKEND_Model Model;
typedef struct TRITONBACKEND_ModelInstance Instance;
typedef struct TRITONBACKEND_Request Request;
typedef struct TRITONBACKEND_Response Response;
typedef struct TRITONBACKEND_ResponseFactory Factory;
typedef struct TRITONBACKEND_Input Input;
typedef struct TRITONBACKEND_Output Output;
typedef struct TRITONBACKEND_State State;

Error *TRITONSERVER_ErrorNew(int code, const char *text);
void TRITONSERVER_ErrorDelete(Error *);
const char *TRITONSERVER_ErrorMessage(Error *);
Error *TRITONSERVER_LogMessage(int level, const char *file, int line, const char *text);
Error *TRITONSERVER_MessageNewFromSerializedJson(Message **, const char *text, size_t size);
Error *TRITONSERVER_MessageSerializeToJson(Message *, const char **text, size_t *size);
Error *TRITONSERVER_MessageDelete(Message *);

Error *TRITONBACKEND_BackendConfig(Backend *, Message **);
Error *TRITONBACKEND_BackendMemoryManager(Backend *, Manager **);
Error *TRITONBACKEND_MemoryManagerAllocate(Manager *, void **data, int memory, int64_t id, uint64_t size);
Error *TRITONBACKEND_MemoryManagerFree(Manager *, void *data, int memory, int64_t id);
Error *TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
    Attribute *, int kind, uint64_t count, const uint64_t *devices, uint64_t device_count);
Error *TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(Attribute *, bool);
Error *TRITONBACKEND_ModelName(Model *, const char **);
Error *TRITONBACKEND_ModelVersion(Model *, uint64_t *);
Error *TRITONBACKEND_ModelConfig(Model *, uint32_t version, Message **);
Error *TRITONBACKEND_ModelSetConfig(Model *, uint32_t version, Message *);
Error *TRITONBACKEND_ModelAutoCompleteConfig(Model *, bool *);
Error *TRITONBACKEND_ModelInstanceModel(Instance *, Model **);
Error *TRITONBACKEND_ModelRepository(Model *, int *type, const char **folder);
Error *TRITONBACKEND_ModelInstanceName(Instance *, const char **);
Error *TRITONBACKEND_ModelInstanceKind(Instance *, int *);
Error *TRITONBACKEND_ModelInstanceDeviceId(Instance *, int32_t *);
Error *TRITONBACKEND_ModelInstanceIsPassive(Instance *, bool *);
Error *TRITONBACKEND_ModelInstanceHostPolicy(Instance *, Message **);
Error *TRITONBACKEND_ModelInstanceSecondaryDeviceCount(Instance *, uint32_t *);
Error *TRITONBACKEND_ModelInstanceSecondaryDeviceProperties(Instance *, uint32_t index, const char **kind, int64_t *id);
Error *TRITONBACKEND_ModelInstanceSetState(Instance *, void *);
Error *TRITONBACKEND_ModelInstanceState(Instance *, void **);
Error *TRITONBACKEND_RequestInput(Request *, const char *name, Input **);
Error *TRITONBACKEND_RequestInputByIndex(Request *, uint32_t index, Input **);
Error *TRITONBACKEND_RequestParameterCount(Request *, uint32_t *);
Error *TRITONBACKEND_RequestParameter(Request *, uint32_t, const char **key, int *type, const void **value);
Error *TRITONBACKEND_RequestCorrelationId(Request *, uint64_t *);
Error *TRITONBACKEND_RequestFlags(Request *, uint32_t *);
Error *TRITONBACKEND_RequestIsCancelled(Request *, bool *);
Error *TRITONBACKEND_RequestRelease(Request *, uint32_t flags);
Error *TRITONBACKEND_InputProperties(Input *, const char **name, int *type, const int64_t **shape, uint32_t *dims,
    uint64_t *size, uint32_t *buffers);
Error *TRITONBACKEND_InputBuffer(
    Input *, uint32_t index, const void **data, uint64_t *size, int *memory, int64_t *memory_id);
Error *TRITONBACKEND_ResponseNew(Response **, Request *);
Error *TRITONBACKEND_ResponseNewFromFactory(Response **, Factory *);
Error *TRITONBACKEND_ResponseOutput(
    Response *, Output **, const char *name, int type, const int64_t *shape, uint32_t dims);
Error *TRITONBACKEND_OutputBuffer(Output *, void **data, uint64_t size, int *memory, int64_t *memory_id);
Error *TRITONBACKEND_ResponseSetIntParameter(Response *, const char *name, int64_t value);
Error *TRITONBACKEND_ResponseSetStringParameter(Response *, const char *name, const char *value);
Error *TRITONBACKEND_ResponseSetBoolParameter(Response *, const char *name, bool value);
Error *TRITONBACKEND_ResponseSetDoubleParameter(Response *, const char *name, double value);
Error *TRITONBACKEND_ResponseSend(Response *, uint32_t flags, Error *);
Error *TRITONBACKEND_StateNew(
    State **, Request *, const char *name, int type, const int64_t *shape, uint32_t dims);
Error *TRITONBACKEND_StateBuffer(State *, void **data, uint64_t size, int *memory, int64_t *memory_id);
Error *TRITONBACKEND_StateUpdate(State *);
Error *TRITONBACKEND_ResponseFactoryNew(Factory **, Request *);
Error *TRITONBACKEND_ResponseFactoryDelete(Factory *);
Error *TRITONBACKEND_ResponseFactoryIsCancelled(Factory *, bool *);
Error *TRITONBACKEND_ResponseFactorySendFlags(Factory *, uint32_t flags);
Error *TRITONBACKEND_ModelInstanceReportStatistics(
    Instance *, Request *, bool ok, uint64_t start, uint64_t compute_start, uint64_t compute_end, uint64_t end);
Error *TRITONBACKEND_ModelInstanceReportBatchStatistics(
    Instance *, uint64_t size, uint64_t start, uint64_t compute_start, uint64_t compute_end, uint64_t end);

// The types of parameters.
enum { STRING, INT, BOOL, DOUBLE };

// FINAL is the flag of the last response, ALL that of an ordinary release, RESCHEDULE that of a step of an iterative
// sequence.
enum { FINAL = 1, ALL = 1, RESCHEDULE = 2 };

// values returns the numbers of the first input of a request.
static inline const float *values(Request *q) {
  Input *in;
  const void *data;
  uint64_t size;
  int64_t id;
  int memory;
  TRITONBACKEND_RequestInputByIndex(q, 0, &in);
  TRITONBACKEND_InputBuffer(in, 0, &data, &size, &memory, &id);
  return (const float *)data;
}

static inline float first_value(Request *q) { return values(q)[0]; }

// copy adds an output to a response that is a copy of the first input of a request.
static inline void copy(Request *q, Response *r, const char *name) {
  Input *in;
  Output *out;
  const int64_t *shape;
  const void *from;
  void *to;
  uint32_t dims, buffers;
  uint64_t size;
  int64_t id;
  int type, memory;
  TRITONBACKEND_RequestInputByIndex(q, 0, &in);
  TRITONBACKEND_InputProperties(in, NULL, &type, &shape, &dims, &size, &buffers);
  TRITONBACKEND_InputBuffer(in, 0, &from, &size, &memory, &id);
  TRITONBACKEND_ResponseOutput(r, &out, name, type, shape, dims);
  TRITONBACKEND_OutputBuffer(out, &to, size, &memory, &id);
  memcpy(to, from, size);
}

#endif
