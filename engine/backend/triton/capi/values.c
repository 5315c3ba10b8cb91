// Errors, messages, parameters, buffer attributes, and the names of numbers.

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

void *must_have(void *memory) {
  if (memory == NULL) {
    fputs("the memory of this process is exhausted\n", stderr);
    abort();
  }
  return memory;
}

char *copy_text(const char *text) { return text == NULL ? NULL : must_have(strdup(text)); }

error new_error(int code, const char *format, ...) {
  error e = must_have(malloc(sizeof *e));
  va_list args;
  va_start(args, format);
  if (vasprintf(&e->text, format, args) < 0) e->text = NULL;
  va_end(args);
  must_have(e->text);
  e->code = code;
  return e;
}

error TRITONSERVER_ErrorNew(int code, const char *text) { return new_error(code, "%s", text == NULL ? "" : text); }

void nt_delete_error(error e) {
  if (e == NULL) return;
  free(e->text);
  free(e);
}

void TRITONSERVER_ErrorDelete(error e) { nt_delete_error(e); }

int TRITONSERVER_ErrorCode(error e) { return e->code; }

const char *TRITONSERVER_ErrorCodeString(error e) {
  static const char *const names[] = {"Unknown", "Internal", "Not found", "Invalid argument", "Unavailable",
      "Unsupported", "Already exists", "Cancelled"};
  if (e->code < 0 || e->code > CODE_CANCELLED) return "<invalid code>";
  return names[e->code];
}

const char *TRITONSERVER_ErrorMessage(error e) { return e->text; }

static error version(uint32_t *major, uint32_t *minor, uint32_t a, uint32_t b) {
  *major = a;
  *minor = b;
  return NULL;
}

error TRITONSERVER_ApiVersion(uint32_t *major, uint32_t *minor) {
  return version(major, minor, SERVER_MAJOR, SERVER_MINOR);
}

error TRITONBACKEND_ApiVersion(uint32_t *major, uint32_t *minor) {
  return version(major, minor, BACKEND_MAJOR, BACKEND_MINOR);
}

error TRITONCACHE_ApiVersion(uint32_t *major, uint32_t *minor) { return version(major, minor, 0, 1); }

error TRITONREPOAGENT_ApiVersion(uint32_t *major, uint32_t *minor) { return version(major, minor, 0, 1); }

static const struct {
  const char *name;
  uint32_t size;
} types[] = {{"<invalid>", 0}, {"BOOL", 1}, {"UINT8", 1}, {"UINT16", 2}, {"UINT32", 4}, {"UINT64", 8}, {"INT8", 1},
    {"INT16", 2}, {"INT32", 4}, {"INT64", 8}, {"FP16", 2}, {"FP32", 4}, {"FP64", 8}, {"BYTES", 0}, {"BF16", 2}};

const char *TRITONSERVER_DataTypeString(int type) { return types[type < 0 || type > TYPE_LAST ? 0 : type].name; }

uint32_t TRITONSERVER_DataTypeByteSize(int type) { return types[type < 0 || type > TYPE_LAST ? 0 : type].size; }

int TRITONSERVER_StringToDataType(const char *name) {
  if (name == NULL) return 0;
  for (int i = 1; i <= TYPE_LAST; i++)
    if (strcmp(types[i].name, name) == 0) return i;
  return 0;
}

// name_of returns the name of a number from a list.
static const char *name_of(const char *const *names, int count, int i) {
  return i < 0 || i >= count ? "<invalid>" : names[i];
}

const char *TRITONSERVER_MemoryTypeString(int memory) {
  static const char *const names[] = {"CPU", "CPU_PINNED", "GPU"};
  return name_of(names, 3, memory);
}

const char *TRITONSERVER_ParameterTypeString(int type) {
  static const char *const names[] = {"STRING", "INT", "BOOL", "DOUBLE", "BYTES"};
  return name_of(names, 5, type);
}

const char *TRITONSERVER_InstanceGroupKindString(int kind) {
  static const char *const names[] = {"AUTO", "CPU", "GPU", "MODEL"};
  return name_of(names, 4, kind);
}

const char *TRITONSERVER_InferenceTraceLevelString(int level) {
  switch (level) {
    case 0: return "DISABLED";
    case 1: return "MIN";
    case 2: return "MAX";
    case 4: return "TIMESTAMPS";
    case 8: return "TENSORS";
  }
  return "<unknown>";
}

const char *TRITONSERVER_InferenceTraceActivityString(int activity) {
  static const char *const names[] = {"REQUEST_START", "QUEUE_START", "COMPUTE_START", "COMPUTE_INPUT_END",
      "COMPUTE_OUTPUT_START", "COMPUTE_END", "REQUEST_END", "TENSOR_QUEUE_INPUT", "TENSOR_BACKEND_INPUT",
      "TENSOR_BACKEND_OUTPUT", "CUSTOM_ACTIVITY"};
  return activity < 0 || activity > 10 ? "<unknown>" : names[activity];
}

void set_message(TRITONSERVER_Message *m, const char *text, size_t size) {
  free(m->text);
  m->text = must_have(malloc(size + 1));
  if (size > 0) memcpy(m->text, text, size);
  m->text[size] = 0;
  m->size = size;
}

error TRITONSERVER_MessageNewFromSerializedJson(TRITONSERVER_Message **m, const char *text, size_t size) {
  *m = must_have(calloc(1, sizeof **m));
  set_message(*m, text, size);
  return NULL;
}

error TRITONSERVER_MessageDelete(TRITONSERVER_Message *m) {
  if (m != NULL) free(m->text);
  free(m);
  return NULL;
}

error TRITONSERVER_MessageSerializeToJson(TRITONSERVER_Message *m, const char **text, size_t *size) {
  NEED(m, "message");
  *text = m->text;
  *size = m->size;
  return NULL;
}

const void *parameter_value(const TRITONSERVER_Parameter *p) {
  switch (p->type) {
    case PARAMETER_INT: return &p->integer;
    case PARAMETER_BOOL: return &p->flag;
    case PARAMETER_DOUBLE: return &p->real;
  }
  return p->text;
}

void clear_parameter(TRITONSERVER_Parameter *p) {
  free(p->name);
  free(p->text);
}

TRITONSERVER_Parameter *TRITONSERVER_ParameterBytesNew(const char *name, const void *bytes, uint64_t size) {
  TRITONSERVER_Parameter *p = must_have(calloc(1, sizeof *p));
  p->name = copy_text(name);
  p->type = PARAMETER_BYTES;
  p->size = size;
  p->text = must_have(malloc(size + 1));
  if (size > 0) memcpy(p->text, bytes, size);
  p->text[size] = 0;
  return p;
}

TRITONSERVER_Parameter *TRITONSERVER_ParameterNew(const char *name, int type, const void *value) {
  if (name == NULL || value == NULL) return NULL;
  if (type == PARAMETER_STRING) {
    TRITONSERVER_Parameter *p = TRITONSERVER_ParameterBytesNew(name, value, strlen(value));
    p->type = type;
    return p;
  }
  if (type != PARAMETER_INT && type != PARAMETER_BOOL && type != PARAMETER_DOUBLE) return NULL;
  TRITONSERVER_Parameter *p = must_have(calloc(1, sizeof *p));
  p->name = copy_text(name);
  p->type = type;
  if (type == PARAMETER_INT) p->integer = *(const int64_t *)value;
  if (type == PARAMETER_BOOL) p->flag = *(const bool *)value;
  if (type == PARAMETER_DOUBLE) p->real = *(const double *)value;
  return p;
}

void TRITONSERVER_ParameterDelete(TRITONSERVER_Parameter *p) {
  if (p == NULL) return;
  clear_parameter(p);
  free(p);
}

error TRITONSERVER_BufferAttributesNew(TRITONSERVER_BufferAttributes **a) {
  *a = must_have(calloc(1, sizeof **a));
  return NULL;
}

error TRITONSERVER_BufferAttributesDelete(TRITONSERVER_BufferAttributes *a) {
  free(a);
  return NULL;
}

error TRITONSERVER_BufferAttributesSetMemoryTypeId(TRITONSERVER_BufferAttributes *a, int64_t id) {
  NEED(a, "buffer attributes");
  a->memory_id = id;
  return NULL;
}

error TRITONSERVER_BufferAttributesSetMemoryType(TRITONSERVER_BufferAttributes *a, int memory) {
  NEED(a, "buffer attributes");
  a->memory = memory;
  return NULL;
}

error TRITONSERVER_BufferAttributesSetCudaIpcHandle(TRITONSERVER_BufferAttributes *a, void *handle) {
  NEED(a, "buffer attributes");
  a->cuda_handle = handle;
  return NULL;
}

error TRITONSERVER_BufferAttributesSetByteSize(TRITONSERVER_BufferAttributes *a, size_t size) {
  NEED(a, "buffer attributes");
  a->size = size;
  return NULL;
}

error TRITONSERVER_BufferAttributesMemoryTypeId(TRITONSERVER_BufferAttributes *a, int64_t *id) {
  NEED(a, "buffer attributes");
  *id = a->memory_id;
  return NULL;
}

error TRITONSERVER_BufferAttributesMemoryType(TRITONSERVER_BufferAttributes *a, int *memory) {
  NEED(a, "buffer attributes");
  *memory = a->memory;
  return NULL;
}

error TRITONSERVER_BufferAttributesCudaIpcHandle(TRITONSERVER_BufferAttributes *a, void **handle) {
  NEED(a, "buffer attributes");
  *handle = a->cuda_handle;
  return NULL;
}

error TRITONSERVER_BufferAttributesByteSize(TRITONSERVER_BufferAttributes *a, size_t *size) {
  NEED(a, "buffer attributes");
  *size = a->size;
  return NULL;
}
