// Repository agents.
#ifndef NT_TRITON_AGENT_H
#define NT_TRITON_AGENT_H

#include "object.h"

typedef struct TRITONREPOAGENT_Agent TRITONREPOAGENT_Agent;
typedef struct TRITONREPOAGENT_AgentModel TRITONREPOAGENT_AgentModel;

enum { ARTIFACT_FILESYSTEM, ARTIFACT_REMOTE };
enum { ACTION_LOAD };

// A library: its functions, which may be NULL except for action, and its state.
struct TRITONREPOAGENT_Agent {
  error (*initialize)(TRITONREPOAGENT_Agent *);
  error (*finalize)(TRITONREPOAGENT_Agent *);
  error (*model_initialize)(TRITONREPOAGENT_Agent *, TRITONREPOAGENT_AgentModel *);
  error (*model_finalize)(TRITONREPOAGENT_Agent *, TRITONREPOAGENT_AgentModel *);
  error (*action)(TRITONREPOAGENT_Agent *, TRITONREPOAGENT_AgentModel *, int action);
  void *state;
};

// One load of a model.
struct TRITONREPOAGENT_AgentModel {
  char *folder;    // where it is loaded from
  char *scratch;   // a folder for the files of agents
  char *acquired;  // the folder in it that the agent has asked for
  char *config;    // JSON
  struct {
    char *name, *value;
  } *parameters;
  uint32_t count;
  int action;  // the last one
  void *state;
};

void nt_find_agent(void *library, TRITONREPOAGENT_Agent *a);
error nt_agent_initialize(TRITONREPOAGENT_Agent *a);
error nt_agent_finalize(TRITONREPOAGENT_Agent *a);
// nt_agent_model makes a model, and nt_agent_parameter adds a parameter. nt_agent_begin and nt_agent_end initialize and
// finalize it; nt_agent_end frees it.
TRITONREPOAGENT_AgentModel *nt_agent_model(const char *folder, const char *scratch, const char *config);
void nt_agent_parameter(TRITONREPOAGENT_AgentModel *m, const char *name, const char *value);
error nt_agent_begin(TRITONREPOAGENT_Agent *a, TRITONREPOAGENT_AgentModel *m);
error nt_agent_act(TRITONREPOAGENT_Agent *a, TRITONREPOAGENT_AgentModel *m, int action);
error nt_agent_end(TRITONREPOAGENT_Agent *a, TRITONREPOAGENT_AgentModel *m);

#endif
