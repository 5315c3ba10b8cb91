// For test_embed.py. options REPOSITORY LOG sets each option, makes two servers at once, and uses the first one while
// the second is gone.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"

#define SET(option, ...) must(TRITONSERVER_ServerOptions##option(o, __VA_ARGS__))

static void print_ready(const char *what, TRITONSERVER_Server *server, const char *model) {
  bool ready;
  must(TRITONSERVER_ServerModelIsReady(server, model, -1, &ready));
  printf("%s: %s\n", what, ready ? "ready" : "not ready");
}

int main(int argc, char **argv) {
  TRITONSERVER_ServerOptions *o;
  must(TRITONSERVER_ServerOptionsNew(&o));
  SET(SetServerId, "all options");
  SET(SetModelRepositoryPath, argv[1]);
  SET(SetModelControlMode, TRITONSERVER_MODEL_CONTROL_EXPLICIT);
  SET(SetStartupModel, "builtin_identity");
  SET(SetStrictModelConfig, false);
  SET(SetModelConfigName, "other");
  SET(SetRateLimiterMode, TRITONSERVER_RATE_LIMIT_EXEC_COUNT);
  SET(AddRateLimiterResource, "R1", 4, -1);
  SET(AddRateLimiterResource, "R2", 4, 0);
  SET(SetPinnedMemoryPoolByteSize, 1 << 20);
  SET(SetCudaMemoryPoolByteSize, 0, 1 << 20);
  SET(SetCudaVirtualAddressSize, 0, 1 << 20);
  SET(SetCacheConfig, "local", "{\"size\": 1048576}");
  SET(SetCacheDirectory, "/tmp");
  SET(SetMinSupportedComputeCapability, 7.5);
  SET(SetExitOnError, true);
  SET(SetStrictReadiness, true);
  SET(SetExitTimeout, 20);
  SET(SetBufferManagerThreadCount, 2);
  SET(SetModelLoadThreadCount, 2);
  SET(SetModelLoadRetryCount, 1);
  SET(SetModelNamespacing, false);
  SET(SetEnablePeerAccess, true);
  SET(SetLogFile, argv[2]);
  SET(SetLogInfo, true);
  SET(SetLogWarn, true);
  SET(SetLogError, true);
  SET(SetLogFormat, TRITONSERVER_LOG_ISO8601);
  SET(SetLogVerbose, 1);
  SET(SetMetrics, false);
  SET(SetGpuMetrics, false);
  SET(SetCpuMetrics, true);
  SET(SetMetricsInterval, 500);
  SET(SetMetricsConfig, NULL, "histogram_latencies", "true");
  SET(SetBackendDirectory, argv[1]);
  SET(SetRepoAgentDirectory, "/tmp");
  SET(SetModelLoadDeviceLimit, TRITONSERVER_INSTANCEGROUPKIND_GPU, 0, 0.5);
  SET(SetBackendConfig, "", "default-max-batch-size", "8");
  SET(SetBackendConfig, "onnxruntime", "intra_op_thread_count", "1");
  SET(SetHostPolicy, "p", "cpu-cores", "0");
  TRITONSERVER_Server *first, *second;
  must(TRITONSERVER_ServerNew(&first, o));

  refused("cache", TRITONSERVER_ServerOptionsSetCacheConfig(o, "local", "size"));
  refused("device", TRITONSERVER_ServerOptionsSetModelLoadDeviceLimit(o, TRITONSERVER_INSTANCEGROUPKIND_CPU, 0, 0.5));
  must(TRITONSERVER_ServerOptionsDelete(o));

  must(TRITONSERVER_ServerOptionsNew(&o));
  SET(SetModelRepositoryPath, argv[1]);
  SET(SetModelControlMode, TRITONSERVER_MODEL_CONTROL_EXPLICIT);
  SET(SetStartupModel, "absent");
  SET(SetLogError, false);
  refused("start", TRITONSERVER_ServerNew(&second, o));
  SET(SetExitOnError, false);
  SET(SetResponseCacheByteSize, 0);
  must(TRITONSERVER_ServerNew(&second, o));
  must(TRITONSERVER_ServerOptionsDelete(o));
  print_ready("second", second, "builtin_identity");

  TRITONSERVER_Metrics *metrics;
  refused("metrics", TRITONSERVER_ServerMetrics(first, &metrics));
  must(TRITONSERVER_ServerMetrics(second, &metrics));
  must(TRITONSERVER_MetricsDelete(metrics));
  refused("unregister", TRITONSERVER_ServerUnregisterModelRepository(second, "absent"));
  must(TRITONSERVER_ServerUnregisterModelRepository(second, argv[1]));
  TRITONSERVER_Parameter *name = TRITONSERVER_ParameterNew("builtin_identity", TRITONSERVER_PARAMETER_STRING, "mine");
  const TRITONSERVER_Parameter *names[] = {name, name};
  refused("names", TRITONSERVER_ServerRegisterModelRepository(second, ".", names, 2));
  must(TRITONSERVER_ServerRegisterModelRepository(second, argv[1], names, 1));
  TRITONSERVER_ParameterDelete(name);
  must(TRITONSERVER_ServerLoadModel(second, "mine"));
  print_ready("mine", second, "mine");
  must(TRITONSERVER_ServerDelete(second));

  const char *config =
      "{\"backend\": \"identity\", \"max_batch_size\": 4, "
      "\"input\": [{\"name\": \"INPUT0\", \"data_type\": \"TYPE_FP32\", \"dims\": [1]}], "
      "\"output\": [{\"name\": \"OUTPUT0\", \"data_type\": \"TYPE_FP32\", \"dims\": [1]}]}";
  TRITONSERVER_Parameter *parameter = TRITONSERVER_ParameterNew("config", TRITONSERVER_PARAMETER_STRING, config);
  const TRITONSERVER_Parameter *parameters[] = {parameter};
  must(TRITONSERVER_ServerLoadModelWithParameters(first, "builtin_identity", parameters, 1));
  TRITONSERVER_ParameterDelete(parameter);
  TRITONSERVER_Message *m;
  const char *text;
  size_t size;
  must(TRITONSERVER_ServerModelMetadata(first, "builtin_identity", -1, &m));
  must(TRITONSERVER_MessageSerializeToJson(m, &text, &size));
  printf("config: %.*s\n", (int)size, text);
  must(TRITONSERVER_MessageDelete(m));
  must(TRITONSERVER_ServerStop(first));
  refused("stopped", TRITONSERVER_ServerLoadModel(first, "builtin_identity"));
  must(TRITONSERVER_ServerDelete(first));
  return 0;
}
