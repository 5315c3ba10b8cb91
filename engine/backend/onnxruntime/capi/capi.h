// What capi.go calls. Every function that can fail returns NULL, or an OrtStatus that the caller releases.
#ifndef NEREID_CAPI_H
#define NEREID_CAPI_H

#include "onnxruntime_c_api.h"

enum { NRD_MAX_RANK = 32 };

// One input of a run. data points to the elements; for strings to Triton's form: each element a 4-byte little-endian
// length and its bytes. The memory is the caller's and stays where it is during the run.
typedef struct {
  uintptr_t data;
  uint64_t size;  // bytes
  uint64_t count; // elements
  int32_t type;   // ONNXTensorElementDataType
  int32_t rank;
  int32_t keep;   // the memory stays after the run: the value around it is used again while it is the same
  int32_t device; // it is the runner's device's memory
  int64_t shape[NRD_MAX_RANK];
} nrd_input;

// A value around memory that stays.
typedef struct {
  OrtValue *value;
  nrd_input at;
} nrd_kept;

// One output of a run. The value is the caller's to release; shape and data live as long as it does.
typedef struct {
  OrtValue *value; // NULL if the memory was given
  const int64_t *shape;
  void *data;       // NULL for strings
  uint64_t size;    // bytes; for strings in Triton's form
  uint64_t count;   // elements
  int32_t type;
  int32_t rank;
  int32_t device;   // data is the runner's device's memory
} nrd_output;

// What a runner keeps between runs.
typedef struct {
  OrtSession *session;
  OrtRunOptions *options;
  OrtIoBinding *binding;    // NULL: it has no device, and the next two mean nothing
  OrtMemoryInfo *device;    // where memory of the device is
  int32_t device_type;      // OrtMemoryInfoDeviceType
  size_t inputs, outputs;   // capacities of the arrays below
  nrd_input *in;
  // By output: memory of the caller's to write it to, of just its shape; data 0: there is none, and device says where it is to
  // be left.
  nrd_input *given;
  nrd_output *out;
  nrd_kept *kept_in, *kept_out;
  const char **in_names, **out_names; // chosen for this run
  OrtValue **in_values, **out_values;
  OrtValue **stale;         // outputs of the last run that were copied, released by the next
  size_t stale_count;
  size_t kept;              // bytes of all sessions that are kept for later runs
} nrd_runner;

// nrd_base looks for OrtGetApiBase in a library and returns its version string; NULL: *error says why.
void *nrd_open(const char *path, char **error);
const char *nrd_version(void *handle);
void nrd_close(void *handle);
// nrd_use takes the API table; 0 if the library does not have that version of it.
int nrd_use(void *handle);
// nrd_survive_divisions makes integer divisions in the library give a result where the processor traps, which would end
// the process with SIGFPE: the smallest number by -1, and any by 0. Only the first call has an effect. Kernels of ONNX
// Runtime divide what clients send without looking at it.
void nrd_survive_divisions(void *handle);

int nrd_code(OrtStatus *s);
const char *nrd_message(OrtStatus *s);
void nrd_release_status(OrtStatus *s);

OrtStatus *nrd_env(int intra, int inter, OrtEnv **env);
// nrd_providers lists the execution providers that the library was built with; the list is released by
// nrd_release_providers.
OrtStatus *nrd_providers(char ***list, int *n);
void nrd_release_providers(char **list, int n);
// nrd_preload opens a library for all later ones to use; else it returns the reason, which the caller frees.
char *nrd_preload(const char *path);
// nrd_session also returns how much of the shared memory the session has taken, in bytes.
OrtStatus *nrd_session(OrtEnv *env, const char *path, OrtSessionOptions *options, OrtSession **session, int64_t *shared);
void nrd_release_session(OrtSession *s);
OrtStatus *nrd_profile(OrtSessionOptions *o, const char *prefix);
OrtStatus *nrd_end_profile(OrtSession *s, char **path); // the caller frees path with nrd_free_name
OrtStatus *nrd_disable_threads(OrtSessionOptions *o);
OrtStatus *nrd_custom_ops(OrtSessionOptions *o, const char *library);

// kind 0: inputs, 1: outputs, 2: initializers that an input may override.
OrtStatus *nrd_count(OrtSession *s, int kind, size_t *n);
// The name is freed by nrd_free_name. onnx_type is ONNXType; type, rank and the type info are set for tensors only.
OrtStatus *nrd_io(OrtSession *s, int kind, size_t i, char **name, int *onnx_type, int *type, size_t *rank, OrtTypeInfo **info);
OrtStatus *nrd_dims(OrtTypeInfo *info, int64_t *dims, const char **names, size_t rank);
void nrd_release_info(OrtTypeInfo *info);
void nrd_free_name(char *name);

nrd_runner *nrd_new_runner(OrtSession *s, size_t inputs, size_t outputs);
OrtStatus *nrd_init_runner(nrd_runner *r, const char *key, const char *value);
size_t nrd_free_runner(nrd_runner *r); // like nrd_release_value, it returns the bytes that are kept
// nrd_run runs the first n_in inputs and n_out outputs of r. On success each r->out[i] holds a value.
OrtStatus *nrd_run(nrd_runner *r, size_t n_in, size_t n_out);
// nrd_use_device lets runs of r have inputs and outputs on a device, under ONNX Runtime's name for its memory and the number.
OrtStatus *nrd_use_device(nrd_runner *r, const char *name, int number);
// nrd_run_bound is nrd_run by I/O binding, for a runner with a device. When it returns, the device has finished.
OrtStatus *nrd_run_bound(nrd_runner *r, size_t n_in, size_t n_out);
OrtStatus *nrd_terminate(nrd_runner *r, int on);
// nrd_release_value returns the bytes that are now kept for later runs.
size_t nrd_release_value(OrtValue *v);
// nrd_strings writes a string tensor in Triton's form into buf, which has o->size bytes.
OrtStatus *nrd_strings(const nrd_output *o, void *buf);

// nrd_memory returns the bytes that the session's CPU allocator holds, 0 if it does not say.
OrtStatus *nrd_memory(OrtSession *s, int64_t *bytes);
// nrd_device_memory returns the same of the allocator for a CUDA device; an error if the session has none.
OrtStatus *nrd_device_memory(OrtSession *s, int device, int64_t *bytes);

// nrd_share_memory registers the allocator of memory.c with the environment. Sessions with the entry session.use_env_allocators
// use it. Its memory is at cpu; standard is ONNX Runtime's default allocator.
OrtStatus *nrd_share_memory(const OrtApi *api, OrtEnv *env, const OrtMemoryInfo *cpu, OrtAllocator *standard);
// nrd_held returns the bytes of it that this thread has taken and not freed; below 0 if it has freed what others took.
int64_t nrd_held(void);
void nrd_loading(int on);
// nrd_clear adds to the number of runs whose memory is cleared before use.
void nrd_clear(int by);
// nrd_keep_memory sets how many freed bytes are kept at most.
void nrd_keep_memory(size_t limit);
// nrd_kept_bytes returns the freed bytes that are kept, and nrd_kept_uses how often blocks were kept or taken.
size_t nrd_kept_bytes(void);
uint64_t nrd_kept_uses(void);
void nrd_free_kept(void);

// nrd_trim returns the free memory of malloc to the system.
void nrd_trim(void);

#endif
