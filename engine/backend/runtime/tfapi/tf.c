#include "tf.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { STRING_SIZE = NRD_TF_STRING_SIZE };

typedef void (*deallocator)(void *data, size_t len, void *arg);

// The functions of the library. Set once, before any other use, by nrd_tf_open. Opaque types are void.
static struct {
  const char *(*Version)(void);
  void *(*NewStatus)(void);
  void (*DeleteStatus)(void *);
  int (*GetCode)(const void *);
  const char *(*Message)(const void *);
  void *(*NewSessionOptions)(void);
  void (*SetConfig)(void *options, const void *proto, size_t n, void *status);
  void (*DeleteSessionOptions)(void *);
  void *(*NewGraph)(void);
  void (*DeleteGraph)(void *);
  void *(*LoadSessionFromSavedModel)(const void *options, const void *run, const char *dir, const char *const *tags,
      int n, void *graph, void *meta, void *status);
  void *(*NewSession)(void *graph, const void *options, void *status);
  void (*CloseSession)(void *, void *status);
  void (*DeleteSession)(void *, void *status);
  void *(*NewBufferFromString)(const void *proto, size_t n);
  void (*DeleteBuffer)(void *);
  void *(*NewImportGraphDefOptions)(void);
  void (*DeleteImportGraphDefOptions)(void *);
  void (*GraphImportGraphDef)(void *graph, const void *def, const void *options, void *status);
  void *(*GraphOperationByName)(void *graph, const char *name);
  int (*OperationNumOutputs)(void *);
  int (*OperationOutputType)(nrd_tf_port);
  void (*SessionRun)(void *session, const void *options, const nrd_tf_port *in, void *const *in_values, int n_in,
      const nrd_tf_port *out, void **out_values, int n_out, const void *const *targets, int n_targets, void *meta,
      void *status);
  void *(*SessionListDevices)(void *session, void *status);
  int (*DeviceListCount)(const void *);
  const char *(*DeviceListType)(const void *, int, void *status);
  void (*DeleteDeviceList)(void *);
  void *(*AllocateTensor)(int type, const int64_t *dims, int rank, size_t size);
  void *(*NewTensor)(int type, const int64_t *dims, int rank, void *data, size_t size, deallocator free, void *arg);
  void (*DeleteTensor)(void *);
  int (*TensorType)(const void *);
  int (*NumDims)(const void *);
  int64_t (*Dim)(const void *, int);
  void *(*TensorData)(const void *);
  size_t (*TensorByteSize)(const void *);
  void *(*LoadLibrary)(const char *path, void *status);
  void (*StringInit)(void *);
  void (*StringCopy)(void *, const char *, size_t);
  const char *(*StringGetDataPointer)(const void *);
  size_t (*StringGetSize)(const void *);
  void (*StringDealloc)(void *);
} tf;

static const struct {
  const char *name;
  void **to;
} functions[] = {
#define F(name) {"TF_" #name, (void **)&tf.name}
  F(Version), F(NewStatus), F(DeleteStatus), F(GetCode), F(Message), F(NewSessionOptions), F(SetConfig),
  F(DeleteSessionOptions), F(NewGraph), F(DeleteGraph), F(LoadSessionFromSavedModel), F(NewSession), F(CloseSession),
  F(DeleteSession), F(NewBufferFromString), F(DeleteBuffer), F(NewImportGraphDefOptions),
  F(DeleteImportGraphDefOptions), F(GraphImportGraphDef), F(GraphOperationByName), F(OperationNumOutputs),
  F(OperationOutputType), F(SessionRun), F(SessionListDevices), F(DeviceListCount), F(DeviceListType),
  F(DeleteDeviceList), F(AllocateTensor), F(NewTensor), F(DeleteTensor), F(TensorType), F(NumDims), F(Dim),
  F(TensorData), F(TensorByteSize), F(LoadLibrary), F(StringInit), F(StringCopy), F(StringGetDataPointer),
  F(StringGetSize), F(StringDealloc),
#undef F
};

char *nrd_tf_open(const char *path) {
  void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (!handle) return strdup(dlerror());
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    *functions[i].to = dlsym(handle, functions[i].name);
    if (!*functions[i].to) {
      char text[128];
      snprintf(text, sizeof text, "it has no function %s: it is older than TensorFlow 2.5, or not TensorFlow",
          functions[i].name);
      return strdup(text);
    }
  }
  return NULL;
}

const char *nrd_tf_version(void) { return tf.Version(); }

// done frees a status and returns its message, NULL if there is no error.
static char *done(void *status, int *code) {
  char *text = NULL;
  *code = tf.GetCode(status);
  if (*code) text = strdup(tf.Message(status));
  tf.DeleteStatus(status);
  return text;
}

char *nrd_tf_load_library(const char *path, int *code) {
  void *status = tf.NewStatus();
  tf.LoadLibrary(path, status); // it stays
  return done(status, code);
}

// options returns session options, NULL if the status has an error.
static void *options(const void *config, size_t n, void *status) {
  void *o = tf.NewSessionOptions();
  if (n) tf.SetConfig(o, config, n, status);
  if (!tf.GetCode(status)) return o;
  tf.DeleteSessionOptions(o);
  return NULL;
}

char *nrd_tf_saved_model(const char *folder, const char *const *tags, int n_tags, const void *config, size_t n,
    void **graph, void **session, int *code) {
  void *status = tf.NewStatus();
  void *o = options(config, n, status);
  if (!o) return done(status, code);
  *graph = tf.NewGraph();
  *session = tf.LoadSessionFromSavedModel(o, NULL, folder, tags, n_tags, *graph, NULL, status);
  tf.DeleteSessionOptions(o);
  if (tf.GetCode(status)) {
    tf.DeleteGraph(*graph);
    *graph = *session = NULL;
  }
  return done(status, code);
}

char *nrd_tf_graph(const void *def, size_t size, const void *config, size_t n, void **graph, void **session,
    int *code) {
  void *status = tf.NewStatus();
  void *o = options(config, n, status);
  if (!o) return done(status, code);
  void *buffer = tf.NewBufferFromString(def, size);
  void *how = tf.NewImportGraphDefOptions();
  *graph = tf.NewGraph();
  tf.GraphImportGraphDef(*graph, buffer, how, status);
  tf.DeleteImportGraphDefOptions(how);
  tf.DeleteBuffer(buffer);
  if (!tf.GetCode(status)) *session = tf.NewSession(*graph, o, status);
  tf.DeleteSessionOptions(o);
  if (tf.GetCode(status)) {
    tf.DeleteGraph(*graph);
    *graph = *session = NULL;
  }
  return done(status, code);
}

void nrd_tf_close(void *graph, void *session) {
  void *status = tf.NewStatus(); // neither fails for a session that is whole, and there is nothing to do about it
  tf.CloseSession(session, status);
  tf.DeleteSession(session, status);
  tf.DeleteGraph(graph);
  tf.DeleteStatus(status);
}

int nrd_tf_find(void *graph, const char *name, int index, nrd_tf_port *port, int *type) {
  port->oper = tf.GraphOperationByName(graph, name);
  port->index = index;
  if (!port->oper) return 0;
  if (index >= tf.OperationNumOutputs(port->oper)) return -1;
  *type = tf.OperationOutputType(*port);
  return 1;
}

char *nrd_tf_target(void *graph, void *session, const char *name, int *code) {
  const void *oper = tf.GraphOperationByName(graph, name);
  *code = 5; // NOT_FOUND
  if (!oper) return strdup("the graph has no such operation");
  void *status = tf.NewStatus();
  tf.SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, &oper, 1, NULL, status);
  return done(status, code);
}

int nrd_tf_has_gpu(void *session) {
  void *status = tf.NewStatus();
  void *list = tf.SessionListDevices(session, status);
  int found = 0;
  if (!tf.GetCode(status)) {
    for (int i = 0; i < tf.DeviceListCount(list) && !found; i++) {
      const char *type = tf.DeviceListType(list, i, status);
      found = !tf.GetCode(status) && !strcmp(type, "GPU");
    }
    tf.DeleteDeviceList(list);
  }
  tf.DeleteStatus(status);
  return found;
}

void *nrd_tf_tensor(int type, const int64_t *shape, int rank, size_t size, void **data) {
  void *t = tf.AllocateTensor(type, shape, rank, size);
  if (t) *data = tf.TensorData(t);
  return t;
}

// free_strings is called when TensorFlow needs the memory of an input no more, which may be after its run.
static void free_strings(void *data, size_t size, void *arg) {
  (void)arg;
  for (size_t at = 0; at + STRING_SIZE <= size; at += STRING_SIZE) tf.StringDealloc((char *)data + at);
  free(data);
}

void *nrd_tf_strings(const int64_t *shape, int rank, uint64_t count, void **data) {
  if (count > SIZE_MAX / STRING_SIZE / 2) return NULL;
  size_t size = (size_t)count * STRING_SIZE;
  char *p = aligned_alloc(64, (size + 127) & ~(size_t)63); // TensorFlow copies what is not aligned
  if (!p) return NULL;
  for (size_t at = 0; at < size; at += STRING_SIZE) tf.StringInit(p + at);
  void *t = tf.NewTensor(NRD_TF_STRING, shape, rank, p, size, free_strings, NULL);
  *data = p;
  return t;
}

int nrd_tf_put_strings(void *data, const void *from, size_t size, uint64_t n) {
  const unsigned char *at = from, *end = at + size;
  char *to = data;
  for (; n; n--, to += STRING_SIZE) {
    if (end - at < 4) return 0;
    uint32_t length = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    at += 4;
    if ((uint64_t)(end - at) < length) return 0;
    tf.StringCopy(to, (const char *)at, length);
    at += length;
  }
  return at == end;
}

void nrd_tf_delete(void *tensor) { tf.DeleteTensor(tensor); }

// describe fills in what a tensor is; NULL, or why it cannot be served.
static char *describe(void *tensor, nrd_tf_output *o) {
  o->tensor = tensor;
  o->type = tf.TensorType(tensor);
  o->rank = tf.NumDims(tensor);
  o->count = 1;
  if (o->rank > NRD_TF_MAX_RANK) return strdup("an output has more dimensions than can be served");
  for (int i = 0; i < o->rank; i++) {
    o->shape[i] = tf.Dim(tensor, i);
    o->count *= (uint64_t)o->shape[i];
  }
  o->data = tf.TensorData(tensor);
  o->size = tf.TensorByteSize(tensor);
  if (o->type != NRD_TF_STRING) return NULL;
  const char *p = o->data;
  o->data = NULL;
  o->size = 4 * o->count;
  for (uint64_t i = 0; i < o->count; i++) o->size += tf.StringGetSize(p + i * STRING_SIZE);
  return NULL;
}

char *nrd_tf_run(void *session, const nrd_tf_port *in, void *const *in_tensors, int n_in, const nrd_tf_port *out,
    void **out_tensors, nrd_tf_output *outputs, int n_out, int *code) {
  void *status = tf.NewStatus();
  memset(out_tensors, 0, (size_t)n_out * sizeof *out_tensors);
  tf.SessionRun(session, NULL, in, in_tensors, n_in, out, out_tensors, n_out, NULL, 0, NULL, status);
  char *error = done(status, code);
  for (int i = 0; i < n_out && !error; i++) {
    *code = 13; // INTERNAL
    error = describe(out_tensors[i], &outputs[i]);
  }
  if (error) {
    for (int i = 0; i < n_out; i++) {
      if (out_tensors[i]) tf.DeleteTensor(out_tensors[i]);
      outputs[i].tensor = NULL;
    }
  }
  return error;
}

void nrd_tf_get_strings(const nrd_tf_output *o, void *buf) {
  const char *p = tf.TensorData(o->tensor);
  unsigned char *at = buf;
  for (uint64_t i = 0; i < o->count; i++, p += STRING_SIZE) {
    size_t n = tf.StringGetSize(p);
    at[0] = n & 255;
    at[1] = n >> 8 & 255;
    at[2] = n >> 16 & 255;
    at[3] = n >> 24 & 255;
    memcpy(at + 4, tf.StringGetDataPointer(p), n);
    at += 4 + n;
  }
}
