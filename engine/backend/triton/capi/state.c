// The implicit states of sequences, which a backend sets. The server keeps them, and gives them to the next request of
// the sequence as inputs.

#include <stdlib.h>
#include <string.h>

#include "object.h"
#include "shim.h"

TRITONBACKEND_Model *the_model;

void nt_add_state(TRITONBACKEND_Model *m, const char *name, const char *input) {
  m->states = must_have(realloc(m->states, (m->state_count + 1) * sizeof *m->states));
  m->states[m->state_count++] = (state_rule){copy_text(name), input == NULL ? NULL : copy_text(input)};
}

void free_states(TRITONBACKEND_Request *q) {
  for (uint32_t i = 0; i < q->state_count; i++) {
    free_output(q->states[i]->value);
    free(q->states[i]);
  }
  free(q->states);
}

// find_state finds the state of the model with that output name.
static error find_state(const char *name, const state_rule **rule) {
  if (the_model->state_count == 0)
    return new_error(CODE_INVALID_ARG, "unable to add state '%s'. State configuration is missing for model '%s'.",
        name, the_model->name);
  for (uint32_t i = 0; i < the_model->state_count; i++)
    if (strcmp(the_model->states[i].name, name) == 0) {
      *rule = &the_model->states[i];
      return NULL;
    }
  return new_error(CODE_INVALID_ARG, "state '%s' is not a valid state name.", name);
}

error TRITONBACKEND_StateNew(TRITONBACKEND_State **state, TRITONBACKEND_Request *q, const char *name, int type,
    const int64_t *shape, uint32_t dims) {
  const state_rule *rule;
  error e = find_state(name, &rule);
  if (e != NULL) return e;
  TRITONBACKEND_State *s = must_have(calloc(1, sizeof *s));
  s->value = new_output(name, type, shape, dims);
  for (uint32_t i = 0; rule->input != NULL && i < q->input_count; i++)
    if (strcmp(q->inputs[i].name, rule->input) == 0) s->before = &q->inputs[i];
  q->states = must_have(realloc(q->states, (q->state_count + 1) * sizeof *q->states));
  q->states[q->state_count++] = *state = s;
  return NULL;
}

error TRITONBACKEND_StateBuffer(
    TRITONBACKEND_State *s, void **data, uint64_t size, int *memory, int64_t *memory_id) {
  error e = new_data(s->value, data, size, memory, memory_id);
  if (e == NULL && s->before != NULL && s->before->size == size && size > 0) memcpy(*data, s->before->data, size);
  return e;
}

error TRITONBACKEND_StateBufferAttributes(TRITONBACKEND_State *s, TRITONSERVER_BufferAttributes **attributes) {
  *attributes = &s->value->attributes;
  return NULL;
}

// The server takes the value with the final response of the request.
error TRITONBACKEND_StateUpdate(TRITONBACKEND_State *s) {
  s->updated = true;
  return NULL;
}
