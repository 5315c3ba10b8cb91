// The functions that repository agents use, and the calls of theirs.

#include "agent.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef TRITONREPOAGENT_Agent agent;
typedef TRITONREPOAGENT_AgentModel model;

void nt_find_agent(void *library, agent *a) {
  *(void **)&a->initialize = dlsym(library, "TRITONREPOAGENT_Initialize");
  *(void **)&a->finalize = dlsym(library, "TRITONREPOAGENT_Finalize");
  *(void **)&a->model_initialize = dlsym(library, "TRITONREPOAGENT_ModelInitialize");
  *(void **)&a->model_finalize = dlsym(library, "TRITONREPOAGENT_ModelFinalize");
  *(void **)&a->action = dlsym(library, "TRITONREPOAGENT_ModelAction");
}

error nt_agent_initialize(agent *a) { return a->initialize == NULL ? NULL : a->initialize(a); }

error nt_agent_finalize(agent *a) { return a->finalize == NULL ? NULL : a->finalize(a); }

model *nt_agent_model(const char *folder, const char *scratch, const char *config) {
  model *m = must_have(calloc(1, sizeof *m));
  m->folder = copy_text(folder);
  m->scratch = copy_text(scratch);
  m->config = copy_text(config);
  return m;
}

void nt_agent_parameter(model *m, const char *name, const char *value) {
  m->parameters = must_have(realloc(m->parameters, (m->count + 1) * sizeof *m->parameters));
  m->parameters[m->count].name = copy_text(name);
  m->parameters[m->count++].value = copy_text(value);
}

error nt_agent_begin(agent *a, model *m) { return a->model_initialize == NULL ? NULL : a->model_initialize(a, m); }

error nt_agent_act(agent *a, model *m, int action) {
  m->action = action;
  return a->action(a, m, action);
}

error nt_agent_end(agent *a, model *m) {
  error e = a->model_finalize == NULL ? NULL : a->model_finalize(a, m);
  for (uint32_t i = 0; i < m->count; i++) {
    free(m->parameters[i].name);
    free(m->parameters[i].value);
  }
  free(m->parameters);
  free(m->folder);
  free(m->scratch);
  free(m->acquired);
  free(m->config);
  free(m);
  return e;
}

error TRITONREPOAGENT_ModelRepositoryLocation(agent *a, model *m, int *type, const char **location) {
  NEED(m, "model");
  *type = ARTIFACT_FILESYSTEM;
  *location = m->folder;
  return NULL;
}

static error check_type(int type) {
  if (type == ARTIFACT_FILESYSTEM) return NULL;
  return new_error(CODE_UNSUPPORTED, "an agent's files must be in a folder of this machine");
}

// The server removes the folder after the last action.
error TRITONREPOAGENT_ModelRepositoryLocationAcquire(agent *a, model *m, int type, const char **location) {
  NEED(m, "model");
  error e = check_type(type);
  if (e != NULL) return e;
  if (m->acquired == NULL) {
    char *folder;
    if (asprintf(&folder, "%s/model-XXXXXX", m->scratch) < 0) folder = NULL;
    if (mkdtemp(must_have(folder)) == NULL) {
      e = new_error(CODE_INTERNAL, "no folder for the files of an agent: %s: %s", folder, strerror(errno));
      free(folder);
      return e;
    }
    m->acquired = folder;
  }
  *location = m->acquired;
  return NULL;
}

error TRITONREPOAGENT_ModelRepositoryLocationRelease(agent *a, model *m, const char *location) {
  NEED(m, "model");
  NEED(location, "location");
  if (m->acquired != NULL && strcmp(m->acquired, location) == 0) return NULL;
  return new_error(CODE_NOT_FOUND, "the location '%s' was not acquired", location);
}

error TRITONREPOAGENT_ModelRepositoryUpdate(agent *a, model *m, int type, const char *location) {
  NEED(m, "model");
  NEED(location, "location");
  if (m->action != ACTION_LOAD)
    return new_error(CODE_INVALID_ARG, "a model's files are replaced while it is loaded only");
  error e = check_type(type);
  if (e != NULL) return e;
  char *folder = copy_text(location);  // it may be the old one
  free(m->folder);
  m->folder = folder;
  return NULL;
}

error TRITONREPOAGENT_ModelParameterCount(agent *a, model *m, uint32_t *count) {
  NEED(m, "model");
  *count = m->count;
  return NULL;
}

error TRITONREPOAGENT_ModelParameter(agent *a, model *m, uint32_t index, const char **name, const char **value) {
  NEED(m, "model");
  if (index >= m->count) return new_error(CODE_INVALID_ARG, "there is no parameter %u of the agent", index);
  *name = m->parameters[index].name;
  *value = m->parameters[index].value;
  return NULL;
}

error TRITONREPOAGENT_ModelConfig(agent *a, model *m, uint32_t version, TRITONSERVER_Message **config) {
  NEED(m, "model");
  if (version != 1) return new_error(CODE_INVALID_ARG, "model configuration version %u is not supported", version);
  *config = must_have(calloc(1, sizeof **config));  // the caller deletes it
  set_message(*config, m->config, strlen(m->config));
  return NULL;
}

error TRITONREPOAGENT_ModelState(model *m, void **state) {
  NEED(m, "model");
  *state = m->state;
  return NULL;
}

error TRITONREPOAGENT_ModelSetState(model *m, void *state) {
  NEED(m, "model");
  m->state = state;
  return NULL;
}

error TRITONREPOAGENT_State(agent *a, void **state) {
  NEED(a, "agent");
  *state = a->state;
  return NULL;
}

error TRITONREPOAGENT_SetState(agent *a, void *state) {
  NEED(a, "agent");
  a->state = state;
  return NULL;
}
