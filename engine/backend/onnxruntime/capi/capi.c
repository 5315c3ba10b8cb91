#include "capi.h"

#include <dlfcn.h>
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#include <unistd.h>
#endif

// The table of functions. Set once, before any other use, by nrd_use.
static const OrtApi *api;
static OrtMemoryInfo *cpu;
static OrtAllocator *allocator;

typedef const OrtApiBase *(*base_function)(void);

#define TRY(call)                 \
  do {                            \
    OrtStatus *try_status = (call); \
    if (try_status) return try_status; \
  } while (0)

// nrd_open also turns the library's telemetry off. It reports its use to its maker from the moment it is loaded, and
// DisableTelemetryEvents comes too late: it has then made an ID of the machine and asked for the address. The program sets
// the variable when it starts, so the environment does not grow here (see setEnvironment in package app). In another
// program, which has loaded the library of Nereid, it may.
void *nrd_open(const char *path, char **error) {
  setenv("ORT_DISABLE_TELEMETRY", "1", 1);
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    *error = strdup(dlerror());
    return NULL;
  }
  if (!dlsym(handle, "OrtGetApiBase")) {
    dlclose(handle);
    *error = strdup("it has no function OrtGetApiBase");
    return NULL;
  }
  return handle;
}

static const OrtApiBase *base_of(void *handle) { return ((base_function)dlsym(handle, "OrtGetApiBase"))(); }

const char *nrd_version(void *handle) { return base_of(handle)->GetVersionString(); }

void nrd_close(void *handle) { dlclose(handle); }

int nrd_use(void *handle) {
  api = base_of(handle)->GetApi(ORT_API_VERSION);
  if (api) nrd_survive_divisions(handle);
  return api != NULL;
}

int nrd_code(OrtStatus *s) { return api->GetErrorCode(s); }
const char *nrd_message(OrtStatus *s) { return api->GetErrorMessage(s); }
void nrd_release_status(OrtStatus *s) { api->ReleaseStatus(s); }

// tame_allocator keeps what unloaded models leave behind small. By default glibc learns to take large blocks from its
// heaps once some were freed, where the small ones that live on pin them, and makes eight heaps for each core, each with
// holes of its own. So weights stay outside the heaps, and there is one heap for a core.
static void tame_allocator(void) {
#ifdef __GLIBC__
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  mallopt(M_MMAP_THRESHOLD, 256 << 10);
  mallopt(M_TRIM_THRESHOLD, 4 << 20); // a fixed one also ends the learning
  mallopt(M_ARENA_MAX, cores > 4 ? (int)cores : 4);
#endif
}

OrtStatus *nrd_env(int intra, int inter, OrtEnv **env) {
  OrtThreadingOptions *t;
  tame_allocator();
  TRY(api->CreateThreadingOptions(&t));
  OrtStatus *s = api->SetGlobalIntraOpNumThreads(t, intra);
  if (!s) s = api->SetGlobalInterOpNumThreads(t, inter);
  if (!s) s = api->SetGlobalSpinControl(t, 0);
  // Only fatal messages go to the library's own log: its errors come back as statuses.
  if (!s) s = api->CreateEnvWithGlobalThreadPools(ORT_LOGGING_LEVEL_FATAL, "nereid", t, env);
  api->ReleaseThreadingOptions(t);
  TRY(s);
  TRY(api->DisableTelemetryEvents(*env)); // for a library that does not know the variable of nrd_open
  TRY(api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &cpu));
  TRY(api->GetAllocatorWithDefaultOptions(&allocator));
  return nrd_share_memory(api, *env, cpu, allocator);
}

OrtStatus *nrd_providers(char ***list, int *n) { return api->GetAvailableProviders(list, n); }
void nrd_release_providers(char **list, int n) {
  OrtStatus *s = api->ReleaseAvailableProviders(list, n);
  if (s) api->ReleaseStatus(s); // documented never to fail
}

char *nrd_preload(const char *path) {
  return dlopen(path, RTLD_NOW | RTLD_GLOBAL) ? NULL : strdup(dlerror());
}

OrtStatus *nrd_session(OrtEnv *env, const char *path, OrtSessionOptions *options, OrtSession **session, int64_t *shared) {
  int64_t before = nrd_held();
  nrd_loading(1);
  OrtStatus *st = api->CreateSession(env, path, options, session);
  nrd_loading(0);
  *shared = nrd_held() - before;
  return st;
}

void nrd_release_session(OrtSession *s) {
  nrd_loading(1);
  api->ReleaseSession(s);
  nrd_loading(0);
}
OrtStatus *nrd_profile(OrtSessionOptions *o, const char *prefix) { return api->EnableProfiling(o, prefix); }
OrtStatus *nrd_end_profile(OrtSession *s, char **path) { return api->SessionEndProfiling(s, allocator, path); }
OrtStatus *nrd_disable_threads(OrtSessionOptions *o) { return api->DisablePerSessionThreads(o); }
OrtStatus *nrd_custom_ops(OrtSessionOptions *o, const char *library) { return api->RegisterCustomOpsLibrary_V2(o, library); }

OrtStatus *nrd_count(OrtSession *s, int kind, size_t *n) {
  switch (kind) {
    case 0: return api->SessionGetInputCount(s, n);
    case 1: return api->SessionGetOutputCount(s, n);
  }
  return api->SessionGetOverridableInitializerCount(s, n);
}

OrtStatus *nrd_io(OrtSession *s, int kind, size_t i, char **name, int *onnx_type, int *type, size_t *rank, OrtTypeInfo **info) {
  const OrtTensorTypeAndShapeInfo *shape;
  enum ONNXType o;
  ONNXTensorElementDataType t;
  *name = NULL;
  *info = NULL;
  switch (kind) {
    case 0:
      TRY(api->SessionGetInputName(s, i, allocator, name));
      TRY(api->SessionGetInputTypeInfo(s, i, info));
      break;
    case 1:
      TRY(api->SessionGetOutputName(s, i, allocator, name));
      TRY(api->SessionGetOutputTypeInfo(s, i, info));
      break;
    default:
      TRY(api->SessionGetOverridableInitializerName(s, i, allocator, name));
      TRY(api->SessionGetOverridableInitializerTypeInfo(s, i, info));
  }
  TRY(api->GetOnnxTypeFromTypeInfo(*info, &o));
  *onnx_type = o;
  if (o != ONNX_TYPE_TENSOR) return NULL;
  TRY(api->CastTypeInfoToTensorInfo(*info, &shape));
  TRY(api->GetTensorElementType(shape, &t));
  *type = t;
  return api->GetDimensionsCount(shape, rank);
}

OrtStatus *nrd_dims(OrtTypeInfo *info, int64_t *dims, const char **names, size_t rank) {
  const OrtTensorTypeAndShapeInfo *shape;
  TRY(api->CastTypeInfoToTensorInfo(info, &shape));
  TRY(api->GetDimensions(shape, dims, rank));
  return api->GetSymbolicDimensions(shape, names, rank);
}

void nrd_release_info(OrtTypeInfo *info) { api->ReleaseTypeInfo(info); }

void nrd_free_name(char *name) {
  OrtStatus *s = api->AllocatorFree(allocator, name);
  if (s) api->ReleaseStatus(s); // the default allocator's free does not fail
}

nrd_runner *nrd_new_runner(OrtSession *s, size_t inputs, size_t outputs) {
  nrd_runner *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  r->session = s;
  r->inputs = inputs;
  r->outputs = outputs;
  r->in = calloc(inputs + 1, sizeof *r->in);
  r->given = calloc(outputs + 1, sizeof *r->given);
  r->out = calloc(outputs + 1, sizeof *r->out);
  r->kept_in = calloc(inputs + 1, sizeof *r->kept_in);
  r->kept_out = calloc(outputs + 1, sizeof *r->kept_out);
  r->in_names = calloc(inputs + 1, sizeof *r->in_names);
  r->out_names = calloc(outputs + 1, sizeof *r->out_names);
  r->in_values = calloc(inputs + 1, sizeof *r->in_values);
  r->out_values = calloc(outputs + 1, sizeof *r->out_values);
  r->stale = calloc(outputs + 1, sizeof *r->stale);
  if (!r->in || !r->given || !r->out || !r->kept_in || !r->kept_out || !r->in_names || !r->out_names || !r->in_values || !r->out_values || !r->stale) {
    nrd_free_runner(r);
    return NULL;
  }
  return r;
}

OrtStatus *nrd_init_runner(nrd_runner *r, const char *key, const char *value) {
  if (!r->options) TRY(api->CreateRunOptions(&r->options));
  return key ? api->AddRunConfigEntry(r->options, key, value) : NULL;
}

static void release_values(OrtValue **v, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (v[i]) api->ReleaseValue(v[i]);
    v[i] = NULL;
  }
}

static void release_kept(nrd_kept *k, size_t n) {
  for (size_t i = 0; k && i < n; i++)
    if (k[i].value) api->ReleaseValue(k[i].value);
  free(k);
}

size_t nrd_free_runner(nrd_runner *r) {
  release_kept(r->kept_in, r->inputs);
  release_kept(r->kept_out, r->outputs);
  if (r->stale) release_values(r->stale, r->stale_count);
  if (r->binding) api->ReleaseIoBinding(r->binding);
  if (r->device) api->ReleaseMemoryInfo(r->device);
  if (r->options) api->ReleaseRunOptions(r->options);
  free(r->in);
  free(r->given);
  free(r->out);
  free(r->in_names);
  free(r->out_names);
  free(r->in_values);
  free(r->out_values);
  free(r->stale);
  free(r);
  return nrd_kept_bytes();
}

static OrtStatus *string_input(const nrd_input *in, OrtValue **value) {
  const unsigned char *at = (const unsigned char *)in->data, *end = at + in->size;
  TRY(api->CreateTensorAsOrtValue(allocator, in->shape, in->rank, ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, value));
  for (uint64_t i = 0; i < in->count; i++) {
    if (end - at < 4) return api->CreateStatus(ORT_INVALID_ARGUMENT, "string tensor ends before the length of an element");
    uint32_t n = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    at += 4;
    if ((uint64_t)(end - at) < n) return api->CreateStatus(ORT_INVALID_ARGUMENT, "string tensor ends inside an element");
    char *buf = NULL;
    TRY(api->GetResizedStringTensorElementBuffer(*value, i, n, &buf));
    if (n) memcpy(buf, at, n);
    at += n;
  }
  if (at != end) return api->CreateStatus(ORT_INVALID_ARGUMENT, "string tensor has bytes left over after its last element");
  return NULL;
}

static OrtStatus *describe(OrtValue *v, nrd_output *o) {
  ONNXTensorElementDataType type;
  size_t rank;
  int is_tensor = 0;
  if (!v) return api->CreateStatus(ORT_FAIL, "the model gave no value for an output");
  TRY(api->IsTensor(v, &is_tensor));
  if (!is_tensor) return api->CreateStatus(ORT_NOT_IMPLEMENTED, "an output is not a tensor (a sequence, a map or an empty optional)");
  TRY(api->GetTensorElementTypeAndShapeDataReference(v, &type, &o->shape, &rank));
  o->value = v;
  o->type = type;
  o->rank = (int32_t)rank;
  o->count = 1;
  for (size_t i = 0; i < rank; i++) o->count *= (uint64_t)o->shape[i];
  o->data = NULL;
  o->device = 0;
  size_t size = 0;
  if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) {
    TRY(api->GetStringTensorDataLength(v, &size));
    o->size = size + 4 * o->count;
    return NULL;
  }
  TRY(api->GetTensorSizeInBytes(v, &size));
  o->size = size;
  return api->GetTensorMutableData(v, &o->data);
}

static OrtStatus *around(const nrd_runner *r, const nrd_input *in, OrtValue **value) {
  return api->CreateTensorWithDataAsOrtValue(in->device ? r->device : cpu, (void *)in->data, in->size, in->shape, in->rank, in->type, value);
}

// kept_value makes *value the one around in's memory, or takes the one of the last run that had the same.
static OrtStatus *kept_value(const nrd_runner *r, nrd_kept *k, const nrd_input *in, OrtValue **value) {
  if (k->value && (k->at.device != in->device || k->at.data != in->data || k->at.size != in->size || k->at.type != in->type || k->at.rank != in->rank ||
                   memcmp(k->at.shape, in->shape, (size_t)in->rank * sizeof *in->shape))) {
    api->ReleaseValue(k->value);
    k->value = NULL;
  }
  if (!k->value) {
    TRY(around(r, in, &k->value));
    k->at = *in;
  }
  *value = k->value;
  return NULL;
}

// release_own releases values that are not kept.
static void release_own(OrtValue **v, const nrd_kept *k, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (v[i] && v[i] != k[i].value) api->ReleaseValue(v[i]);
    v[i] = NULL;
  }
}

// prepare makes the values of a run.
static OrtStatus *prepare(nrd_runner *r, size_t n_in, size_t n_out) {
  release_values(r->stale, r->stale_count);
  r->stale_count = 0;
  for (size_t i = 0; i < n_in; i++) {
    nrd_input *in = &r->in[i];
    if (in->type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING)
      TRY(string_input(in, &r->in_values[i]));
    else if (in->keep)
      TRY(kept_value(r, &r->kept_in[i], in, &r->in_values[i]));
    else
      TRY(around(r, in, &r->in_values[i]));
  }
  for (size_t i = 0; i < n_out; i++)
    if (r->given[i].data) TRY(kept_value(r, &r->kept_out[i], &r->given[i], &r->out_values[i]));
  return NULL;
}

// locate notes whether the device has an output that was to be left there.
static OrtStatus *locate(const nrd_runner *r, const nrd_input *given, nrd_output *o) {
  const OrtMemoryInfo *where;
  OrtMemoryInfoDeviceType type;
  if (!given->device) return NULL;
  TRY(api->GetTensorMemoryInfo(o->value, &where));
  api->MemoryInfoGetDeviceType(where, &type);
  o->device = (int32_t)type == r->device_type;
  return NULL;
}

// finish describes the outputs of a run, or cleans up after one that failed with s.
static OrtStatus *finish(nrd_runner *r, size_t n_in, size_t n_out, OrtStatus *s) {
  release_own(r->in_values, r->kept_in, n_in);
  for (size_t i = 0; i < n_out && !s; i++) {
    s = describe(r->out_values[i], &r->out[i]);
    if (!s) s = locate(r, &r->given[i], &r->out[i]);
  }
  if (s) {
    release_own(r->out_values, r->kept_out, n_out);
    return s;
  }
  for (size_t i = 0; i < n_out; i++) {
    if (r->given[i].data) r->out[i].value = NULL;
    r->out_values[i] = NULL; // it is in r->out
  }
  return NULL;
}

// clear_memory clears the memory of a run with an input without elements, and returns 1 for such a run; see memory.c.
static int clear_memory(nrd_runner *r, size_t n_in, size_t n_out) {
  size_t i = 0;
  while (i < n_in && r->in[i].count > 0) i++;
  if (i == n_in) return 0;
  for (i = 0; i < n_out; i++)
    if (r->given[i].data && !r->given[i].device) memset((void *)r->given[i].data, 0, r->given[i].size);
  nrd_clear(1);
  return 1;
}

OrtStatus *nrd_run(nrd_runner *r, size_t n_in, size_t n_out) {
  OrtStatus *s = prepare(r, n_in, n_out);
  int clear = clear_memory(r, n_in, n_out);
  if (!s)
    s = api->Run(r->session, r->options, r->in_names, (const OrtValue *const *)r->in_values, n_in, r->out_names, n_out, r->out_values);
  if (clear) nrd_clear(-1);
  s = finish(r, n_in, n_out, s);
  r->kept = nrd_kept_bytes();
  return s;
}

OrtStatus *nrd_use_device(nrd_runner *r, const char *name, int number) {
  OrtMemoryInfoDeviceType type;
  TRY(api->CreateMemoryInfo(name, OrtDeviceAllocator, number, OrtMemTypeDefault, &r->device));
  api->MemoryInfoGetDeviceType(r->device, &type);
  r->device_type = type;
  return api->CreateIoBinding(r->session, &r->binding);
}

// bind gives the values to the binding. An input that is not where it is used is copied there at once.
static OrtStatus *bind(nrd_runner *r, size_t n_in, size_t n_out) {
  for (size_t i = 0; i < n_in; i++) TRY(api->BindInput(r->binding, r->in_names[i], r->in_values[i]));
  for (size_t i = 0; i < n_out; i++) {
    if (r->out_values[i])
      TRY(api->BindOutput(r->binding, r->out_names[i], r->out_values[i]));
    else
      TRY(api->BindOutputToDevice(r->binding, r->out_names[i], r->given[i].device ? r->device : cpu));
  }
  return NULL;
}

// collect takes the outputs that were made out of the binding.
static OrtStatus *collect(nrd_runner *r, size_t n_out) {
  OrtValue **list = NULL;
  size_t n = 0;
  if (n_out == 0) return NULL;
  TRY(api->GetBoundOutputValues(r->binding, allocator, &list, &n));
  for (size_t i = 0; i < n; i++) {
    if (i < n_out && !r->out_values[i])
      r->out_values[i] = list[i];
    else
      api->ReleaseValue(list[i]);
  }
  OrtStatus *s = api->AllocatorFree(allocator, list);
  if (!s && n != n_out) s = api->CreateStatus(ORT_FAIL, "the binding has another number of outputs than were bound");
  return s;
}

// settle waits for what the device still does of a run that has failed: it may use memory of the caller's.
static void settle(nrd_runner *r) {
  OrtStatus *in = api->SynchronizeBoundInputs(r->binding), *out = api->SynchronizeBoundOutputs(r->binding);
  if (in) api->ReleaseStatus(in); // the caller gets the error of the run
  if (out) api->ReleaseStatus(out);
}

OrtStatus *nrd_run_bound(nrd_runner *r, size_t n_in, size_t n_out) {
  OrtStatus *s = prepare(r, n_in, n_out);
  int clear = clear_memory(r, n_in, n_out);
  if (!s) s = bind(r, n_in, n_out);
  if (!s) s = api->SynchronizeBoundInputs(r->binding);
  if (!s) s = api->RunWithBinding(r->session, r->options, r->binding);
  if (!s) s = api->SynchronizeBoundOutputs(r->binding);
  if (clear) nrd_clear(-1);
  if (s) settle(r);
  if (!s) s = collect(r, n_out);
  api->ClearBoundInputs(r->binding); // it would hold the memory until the next run
  api->ClearBoundOutputs(r->binding);
  s = finish(r, n_in, n_out, s);
  r->kept = nrd_kept_bytes();
  return s;
}

OrtStatus *nrd_terminate(nrd_runner *r, int on) {
  return on ? api->RunOptionsSetTerminate(r->options) : api->RunOptionsUnsetTerminate(r->options);
}

size_t nrd_release_value(OrtValue *v) {
  api->ReleaseValue(v);
  return nrd_kept_bytes();
}

OrtStatus *nrd_strings(const nrd_output *o, void *buf) {
  unsigned char *at = buf, *end = at + o->size;
  for (uint64_t i = 0; i < o->count; i++) {
    size_t n;
    TRY(api->GetStringTensorElementLength(o->value, i, &n));
    if ((size_t)(end - at) < 4 || n > (size_t)(end - at) - 4 || n > UINT32_MAX)
      return api->CreateStatus(ORT_FAIL, "a string output does not fit into the size that it reported");
    at[0] = n & 255;
    at[1] = n >> 8 & 255;
    at[2] = n >> 16 & 255;
    at[3] = n >> 24 & 255;
    at += 4;
    if (n) TRY(api->GetStringTensorElement(o->value, n, i, at));
    at += n;
  }
  return NULL;
}

static OrtStatus *allocated(OrtSession *s, const OrtMemoryInfo *where, int64_t *bytes) {
  OrtAllocator *a = NULL;
  OrtKeyValuePairs *stats = NULL;
  const char *v;
  *bytes = 0;
  TRY(api->CreateAllocator(s, where, &a));
  OrtStatus *st = api->AllocatorGetStats(a, &stats);
  if (!st && stats && (v = api->GetKeyValue(stats, "TotalAllocated"))) *bytes = strtoll(v, NULL, 10);
  if (stats) api->ReleaseKeyValuePairs(stats);
  api->ReleaseAllocator(a);
  return st;
}

OrtStatus *nrd_memory(OrtSession *s, int64_t *bytes) { return allocated(s, cpu, bytes); }

OrtStatus *nrd_device_memory(OrtSession *s, int device, int64_t *bytes) {
  OrtMemoryInfo *where = NULL;
  *bytes = 0;
  TRY(api->CreateMemoryInfo("Cuda", OrtDeviceAllocator, device, OrtMemTypeDefault, &where));
  OrtStatus *st = allocated(s, where, bytes);
  api->ReleaseMemoryInfo(where);
  return st;
}

void nrd_trim(void) {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}
