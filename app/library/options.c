// The options of a server, and the texts of its metrics. Each option is one of nereid serve's, so its value is checked
// by the code that checks the command line, when the server is made.

#include "options.h"

#include <dlfcn.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef TRITONSERVER_ServerOptions options;

static void add(options *o, char *text) {
  o->args = must_have(realloc(o->args, (o->count + 1) * sizeof *o->args));
  o->args[o->count++] = must_have(text);
}

error option(options *o, const char *format, ...) {
  NEED(o, "options");
  char *text;
  va_list args;
  va_start(args, format);
  // Numbers are written as in C, whatever the program's locale is.
  locale_t plain = newlocale(LC_NUMERIC_MASK, "C", NULL);
  must_have(plain);
  locale_t old = uselocale(plain);
  if (vasprintf(&text, format, args) < 0) text = NULL;
  uselocale(old);
  freelocale(plain);
  va_end(args);
  add(o, text);
  return NULL;
}

void option_text(options *o, const char *text) { add(o, copy_text(text)); }

const char *library_path(void) {
  Dl_info info;
  return dladdr((void *)library_path, &info) == 0 ? "" : info.dli_fname;
}

error TRITONSERVER_ServerOptionsNew(options **o) {
  *o = must_have(calloc(1, sizeof **o));
  return option(*o, "--strict-model-config=true");  // the default of the C API
}

error TRITONSERVER_ServerOptionsDelete(options *o) {
  if (o == NULL) return NULL;
  for (uint32_t i = 0; i < o->count; i++) free(o->args[i]);
  free(o->args);
  free(o);
  return NULL;
}

static const char *truth(bool b) { return b ? "true" : "false"; }

// An option with one value of a type, which printf writes with a format.
#define OPTION(function, name, type, format, value) \
  error TRITONSERVER_ServerOptions##function(options *o, type v) { return option(o, "--" name "=" format, value); }
#define TEXT(function, name) \
  error TRITONSERVER_ServerOptions##function(options *o, const char *v) { \
    NEED(v, "value of --" name); \
    return option(o, "--" name "=%s", v); \
  }
#define TRUTH(function, name) OPTION(function, name, bool, "%s", truth(v))
#define COUNT(function, name) OPTION(function, name, unsigned, "%u", v)
#define BYTES(function, name) OPTION(function, name, uint64_t, "%llu", (unsigned long long)v)

TEXT(SetServerId, "id")
TEXT(SetModelRepositoryPath, "model-repository")
TEXT(SetStartupModel, "load-model")
TEXT(SetModelConfigName, "model-config-name")
TEXT(SetBackendDirectory, "backend-directory")
TEXT(SetRepoAgentDirectory, "repoagent-directory")
TEXT(SetCacheDirectory, "cache-directory")
TEXT(SetLogFile, "log-file")
TRUTH(SetStrictModelConfig, "strict-model-config")
TRUTH(SetStrictReadiness, "strict-readiness")
TRUTH(SetExitOnError, "exit-on-error")
TRUTH(SetModelNamespacing, "model-namespacing")
TRUTH(SetEnablePeerAccess, "enable-peer-access")
TRUTH(SetLogInfo, "log-info")
TRUTH(SetLogWarn, "log-warning")
TRUTH(SetLogError, "log-error")
TRUTH(SetGpuMetrics, "allow-gpu-metrics")
TRUTH(SetCpuMetrics, "allow-cpu-metrics")
COUNT(SetExitTimeout, "exit-timeout-secs")
COUNT(SetBufferManagerThreadCount, "buffer-manager-thread-count")
COUNT(SetModelLoadThreadCount, "model-load-thread-count")
COUNT(SetModelLoadRetryCount, "model-load-retry-count")
BYTES(SetPinnedMemoryPoolByteSize, "pinned-memory-pool-byte-size")
BYTES(SetResponseCacheByteSize, "response-cache-byte-size")
BYTES(SetMetricsInterval, "metrics-interval-ms")
OPTION(SetMinSupportedComputeCapability, "min-supported-compute-capability", double, "%.17g", v)
OPTION(SetLogVerbose, "log-verbose", int, "%d", v)
OPTION(SetLogFormat, "log-format", int, "%s", v == 0 ? "default" : "ISO8601")
OPTION(SetRateLimiterMode, "rate-limit", int, "%s", v == 0 ? "off" : "execution_count")
OPTION(SetModelControlMode, "model-control-mode", int, "%s",
    v == CONTROL_EXPLICIT ? "explicit" : v == CONTROL_POLL ? "poll" : "none")

// The metrics need no port, so they are no option of the command line.
error TRITONSERVER_ServerOptionsSetMetrics(options *o, bool on) {
  NEED(o, "options");
  o->no_metrics = !on;
  return NULL;
}

error TRITONSERVER_ServerOptionsSetMetricsConfig(options *o, const char *name, const char *key, const char *value) {
  NEED(o, "options");
  NEED(key, "key");
  NEED(value, "value");
  if (name != NULL && *name != 0) return option(o, "--metrics-config=%s,%s=%s", name, key, value);
  return option(o, "--metrics-config=%s=%s", key, value);
}

error TRITONSERVER_ServerOptionsSetBackendConfig(options *o, const char *backend, const char *key, const char *value) {
  NEED(o, "options");
  NEED(key, "key");
  NEED(value, "value");
  if (backend != NULL && *backend != 0) return option(o, "--backend-config=%s,%s=%s", backend, key, value);
  return option(o, "--backend-config=%s=%s", key, value);
}

error TRITONSERVER_ServerOptionsSetHostPolicy(options *o, const char *policy, const char *key, const char *value) {
  NEED(o, "options");
  NEED(policy, "policy");
  NEED(key, "key");
  NEED(value, "value");
  return option(o, "--host-policy=%s,%s=%s", policy, key, value);
}

error TRITONSERVER_ServerOptionsAddRateLimiterResource(options *o, const char *name, size_t count, int device) {
  NEED(o, "options");
  NEED(name, "name");
  if (device == -1) return option(o, "--rate-limit-resource=%s:%zu", name, count);
  if (device < 0) return option(o, "--rate-limit-resource=%s:%zu:global", name, count);
  return option(o, "--rate-limit-resource=%s:%zu:%d", name, count, device);
}

error TRITONSERVER_ServerOptionsSetCudaMemoryPoolByteSize(options *o, int gpu, uint64_t size) {
  NEED(o, "options");
  return option(o, "--cuda-memory-pool-byte-size=%d:%llu", gpu, (unsigned long long)size);
}

error TRITONSERVER_ServerOptionsSetCudaVirtualAddressSize(options *o, int gpu, size_t size) {
  NEED(o, "options");
  return option(o, "--cuda-virtual-address-size=%d:%zu", gpu, size);
}

error TRITONSERVER_ServerOptionsSetModelLoadDeviceLimit(options *o, int kind, int device, double fraction) {
  NEED(o, "options");
  if (kind != KIND_GPU) return new_error(CODE_UNSUPPORTED, "a limit of memory for loads is supported for GPUs only");
  return option(o, "--model-load-gpu-limit=%d:%.17g", device, fraction);
}

error TRITONSERVER_MetricsFormatted(TRITONSERVER_Metrics *m, int format, const char **text, size_t *size) {
  NEED(m, "metrics");
  if (format != METRIC_PROMETHEUS) return new_error(CODE_INVALID_ARG, "unknown metrics format %d", format);
  *text = m->text.text;
  *size = m->text.size;
  return NULL;
}

error TRITONSERVER_MetricsDelete(TRITONSERVER_Metrics *m) {
  if (m != NULL) free(m->text.text);
  free(m);
  return NULL;
}
