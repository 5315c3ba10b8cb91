// A repository agent for test_triton_agents.py. It decodes 1/model.hidden into 1/model.onnx of another folder. Each byte
// is combined with the parameter "key". With the parameter "refuse" it refuses, and with "crash" it ends its process.
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "triton.h"

typedef struct TRITONREPOAGENT_Agent Agent;
typedef struct TRITONREPOAGENT_AgentModel AgentModel;

Error *TRITONREPOAGENT_ApiVersion(uint32_t *major, uint32_t *minor);
Error *TRITONREPOAGENT_ModelRepositoryLocation(Agent *, AgentModel *, int *type, const char **location);
Error *TRITONREPOAGENT_ModelRepositoryLocationAcquire(Agent *, AgentModel *, int type, const char **location);
Error *TRITONREPOAGENT_ModelRepositoryLocationRelease(Agent *, AgentModel *, const char *location);
Error *TRITONREPOAGENT_ModelRepositoryUpdate(Agent *, AgentModel *, int type, const char *location);
Error *TRITONREPOAGENT_ModelParameterCount(Agent *, AgentModel *, uint32_t *);
Error *TRITONREPOAGENT_ModelParameter(Agent *, AgentModel *, uint32_t, const char **name, const char **value);
Error *TRITONREPOAGENT_ModelConfig(Agent *, AgentModel *, uint32_t version, Message **);
Error *TRITONREPOAGENT_ModelState(AgentModel *, void **);
Error *TRITONREPOAGENT_ModelSetState(AgentModel *, void *);
Error *TRITONREPOAGENT_State(Agent *, void **);
Error *TRITONREPOAGENT_SetState(Agent *, void *);

enum { INTERNAL = 1, LOAD = 0 };

static Error *say(const char *text) { return TRITONSERVER_LogMessage(1, __FILE__, __LINE__, text); }

Error *TRITONREPOAGENT_Initialize(Agent *a) {
  uint32_t major, minor;
  Error *e = TRITONREPOAGENT_ApiVersion(&major, &minor);
  if (e == NULL && major != 0) e = TRITONSERVER_ErrorNew(INTERNAL, "another API");
  if (e == NULL) e = TRITONREPOAGENT_SetState(a, a);
  return e == NULL ? say("own agent: begins") : e;
}

Error *TRITONREPOAGENT_Finalize(Agent *a) {
  void *state;
  Error *e = TRITONREPOAGENT_State(a, &state);
  return e == NULL && state == a ? say("own agent: ends") : e;
}

Error *TRITONREPOAGENT_ModelInitialize(Agent *a, AgentModel *m) { return say("own agent: model begins"); }

Error *TRITONREPOAGENT_ModelFinalize(Agent *a, AgentModel *m) {
  void *location;
  Error *e = TRITONREPOAGENT_ModelState(m, &location);
  if (e == NULL && location != NULL) e = TRITONREPOAGENT_ModelRepositoryLocationRelease(a, m, location);
  return e == NULL ? say("own agent: model ends") : e;
}

static const char *parameter(Agent *a, AgentModel *m, const char *want) {
  uint32_t count = 0;
  const char *name, *value;
  TRITONREPOAGENT_ModelParameterCount(a, m, &count);
  for (uint32_t i = 0; i < count; i++)
    if (TRITONREPOAGENT_ModelParameter(a, m, i, &name, &value) == NULL && strcmp(name, want) == 0) return value;
  return NULL;
}

// convert copies a file. Each byte is combined with key.
static Error *convert(const char *from, const char *name, const char *to, const char *new_name, int key) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", from, name);
  FILE *in = fopen(path, "rb");
  snprintf(path, sizeof path, "%s/%s", to, new_name);
  FILE *out = fopen(path, "wb");
  if (in == NULL || out == NULL) return TRITONSERVER_ErrorNew(INTERNAL, path);
  for (int c = fgetc(in); c != EOF; c = fgetc(in)) fputc(c ^ key, out);
  fclose(in);
  return fclose(out) == 0 ? NULL : TRITONSERVER_ErrorNew(INTERNAL, path);
}

Error *TRITONREPOAGENT_ModelAction(Agent *a, AgentModel *m, int action) {
  static const char *const names[] = {"own agent: LOAD", "own agent: LOAD_COMPLETE", "own agent: LOAD_FAIL",
      "own agent: UNLOAD", "own agent: UNLOAD_COMPLETE"};
  Error *e = say(names[action]);
  if (e != NULL || action != LOAD) return e;
  if (parameter(a, m, "refuse") != NULL) return TRITONSERVER_ErrorNew(INTERNAL, parameter(a, m, "refuse"));
  if (parameter(a, m, "crash") != NULL) raise(SIGKILL);
  Message *config;
  const char *text;
  size_t size;
  e = TRITONREPOAGENT_ModelConfig(a, m, 1, &config);
  if (e == NULL) e = TRITONSERVER_MessageSerializeToJson(config, &text, &size);
  if (e == NULL && strstr(text, "\"max_batch_size\":8") != NULL) e = say("own agent: reads max_batch_size 8");
  if (e == NULL) e = TRITONSERVER_MessageDelete(config);
  if (e != NULL) return e;
  const char *from, *to;
  int type;
  e = TRITONREPOAGENT_ModelRepositoryLocation(a, m, &type, &from);
  if (e == NULL) e = TRITONREPOAGENT_ModelRepositoryLocationAcquire(a, m, type, &to);
  if (e == NULL) e = TRITONREPOAGENT_ModelSetState(m, (void *)to);
  char version[4096];
  snprintf(version, sizeof version, "%s/1", to);
  if (e == NULL && mkdir(version, 0700) != 0) e = TRITONSERVER_ErrorNew(INTERNAL, version);
  if (e == NULL) e = convert(from, "config.pbtxt", to, "config.pbtxt", 0);
  const char *key = parameter(a, m, "key");
  if (e == NULL) e = convert(from, "1/model.hidden", to, "1/model.onnx", key == NULL ? 0 : atoi(key));
  return e == NULL ? TRITONREPOAGENT_ModelRepositoryUpdate(a, m, type, to) : e;
}
