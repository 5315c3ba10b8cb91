// Requests whose responses wait until they are taken. They are for programs in languages where a function that the
// server calls on its own thread is slow, such as Python. app/library/python is their user.

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "options.h"

// These are in the shim.
error TRITONSERVER_InferenceRequestSetReleaseCallback(TRITONSERVER_InferenceRequest *q, release_function f, void *p);
error TRITONSERVER_InferenceRequestSetResponseCallback(TRITONSERVER_InferenceRequest *q,
    TRITONSERVER_ResponseAllocator *a, void *allocator_userp, response_function f, void *p);
error TRITONSERVER_InferenceRequestCancel(TRITONSERVER_InferenceRequest *q);
error TRITONSERVER_InferenceRequestDelete(TRITONSERVER_InferenceRequest *q);
error TRITONSERVER_InferenceResponseDelete(TRITONSERVER_InferenceResponse *r);
error TRITONSERVER_InferenceRequestAddInput(
    TRITONSERVER_InferenceRequest *q, const char *name, int type, const int64_t *shape, uint64_t dims);
error TRITONSERVER_InferenceRequestAppendInputData(
    TRITONSERVER_InferenceRequest *q, const char *name, const void *data, size_t size, int memory, int64_t id);
error TRITONSERVER_ServerInferAsync(TRITONSERVER_Server *s, TRITONSERVER_InferenceRequest *q, void *trace);

// A response that has not been taken.
typedef struct waiting {
  struct waiting *next;
  TRITONSERVER_InferenceResponse *response;
  bool final;
} waiting;

// A request that was sent. It is freed when the caller has deleted it and the final response has come.
typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t arrived;
  TRITONSERVER_InferenceRequest *request;
  waiting *first, **last;
  bool final, deleted, responding;  // responding: respond still uses the call
  int fd;        // a socket that gets the tag with each response; -1: none
  uint64_t tag;
} call;

static error allocate(TRITONSERVER_ResponseAllocator *a, const char *name, size_t size, int memory, int64_t id,
    void *userp, void **buffer, void **buffer_userp, int *actual, int64_t *actual_id) {
  *buffer = must_have(malloc(size + 1));  // not NULL for an output without elements
  *buffer_userp = NULL;
  *actual = MEMORY_CPU;
  *actual_id = 0;
  return NULL;
}

static error release(TRITONSERVER_ResponseAllocator *a, void *buffer, void *userp, size_t size, int memory,
    int64_t id) {
  free(buffer);
  return NULL;
}

static TRITONSERVER_ResponseAllocator heap = {.allocate = allocate, .free = release};

// The request is deleted with its call.
static void released(TRITONSERVER_InferenceRequest *q, uint32_t flags, void *userp) {}

static void free_call(call *c) {
  for (waiting *w = c->first; w != NULL;) {
    waiting *next = w->next;
    TRITONSERVER_InferenceResponseDelete(w->response);
    free(w);
    w = next;
  }
  TRITONSERVER_InferenceRequestDelete(c->request);
  if (c->fd >= 0) close(c->fd);
  pthread_cond_destroy(&c->arrived);
  pthread_mutex_destroy(&c->lock);
  free(c);
}

// sending is the call that this thread sends. A response may come meanwhile, and needs no tag: the sender looks next.
static _Thread_local call *sending;

static void respond(TRITONSERVER_InferenceResponse *r, uint32_t flags, void *userp) {
  call *c = userp;
  pthread_mutex_lock(&c->lock);
  if (r != NULL) {
    waiting *w = must_have(malloc(sizeof *w));
    *w = (waiting){NULL, r, flags & RESPONSE_FINAL};
    *c->last = w;
    c->last = &w->next;
  }
  c->final = flags & RESPONSE_FINAL;
  c->responding = true;
  pthread_cond_signal(&c->arrived);
  pthread_mutex_unlock(&c->lock);
  // Without the lock, because a reader that is behind holds the model up here. If it has gone, nothing is sent.
  if (c->fd >= 0 && sending != c) send(c->fd, &c->tag, sizeof c->tag, MSG_NOSIGNAL);
  pthread_mutex_lock(&c->lock);
  c->responding = false;
  bool last = c->final && c->deleted;
  pthread_mutex_unlock(&c->lock);
  if (last) free_call(c);
}

// NEREID_RequestAddInputs adds inputs. Each is in words: name, type, data, size, dimensions, and the shape. The data
// stays the caller's, and is not needed any more when the call is made.
error NEREID_RequestAddInputs(TRITONSERVER_InferenceRequest *q, const int64_t *words, uint32_t count) {
  error e = NULL;
  for (uint32_t i = 0; i < count && e == NULL; i++) {
    const char *name = (const char *)words[0];
    e = TRITONSERVER_InferenceRequestAddInput(q, name, (int)words[1], words + 5, (uint64_t)words[4]);
    if (e == NULL)
      e = TRITONSERVER_InferenceRequestAppendInputData(
          q, name, (const void *)words[2], (size_t)words[3], MEMORY_CPU, 0);
    words += 5 + words[4];
  }
  return e;
}

// NEREID_ResponseOutputs writes the outputs in the words of NEREID_RequestAddInputs, as many as fit in room. The names
// and the data are the response's. It returns the words of all of them.
uint64_t NEREID_ResponseOutputs(TRITONSERVER_InferenceResponse *r, int64_t *words, uint64_t room) {
  uint64_t at = 0;
  for (uint32_t i = 0; i < r->output_count; i++) {
    const client_output *o = &r->outputs[i];
    if (at + 5 + o->dims <= room) {
      words[at] = (int64_t)o->name;
      words[at + 1] = o->type;
      words[at + 2] = (int64_t)o->data;
      words[at + 3] = (int64_t)o->size;
      words[at + 4] = o->dims;
      memcpy(words + at + 5, o->shape, 8 * (size_t)o->dims);
    }
    at += 5 + o->dims;
  }
  return at;
}

// NEREID_CallNew sends a request, which it owns then, even if it fails. fd is a stream socket that gets tag with each
// response that comes later than this function returns, or -1; the call has a duplicate of it.
error NEREID_CallNew(call **made, TRITONSERVER_Server *s, TRITONSERVER_InferenceRequest *q, int fd, uint64_t tag) {
  call *c = must_have(calloc(1, sizeof *c));
  pthread_condattr_t clock;
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_mutex_init(&c->lock, NULL);
  pthread_cond_init(&c->arrived, &clock);
  c->request = q;
  c->last = &c->first;
  c->tag = tag;
  c->fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
  error e = NULL;
  if (fd >= 0 && c->fd < 0) e = new_error(CODE_UNAVAILABLE, "too many open files: %s", strerror(errno));
  if (e == NULL) {
    TRITONSERVER_InferenceRequestSetReleaseCallback(q, released, NULL);
    TRITONSERVER_InferenceRequestSetResponseCallback(q, &heap, NULL, respond, c);
    q->prompt = true;
    sending = c;
    e = TRITONSERVER_ServerInferAsync(s, q, NULL);
    sending = NULL;
  }
  if (e != NULL) {
    free_call(c);
    return e;
  }
  *made = c;
  return NULL;
}

// NEREID_CallNext waits for a response, which is the caller's. It returns 1 with one, 2 with one that is the final one,
// 0 after the final one, and -1 when none has come in time. A decoupled model may end without a response: then 0 comes
// without 2.
int NEREID_CallNext(call *c, int64_t milliseconds, TRITONSERVER_InferenceResponse **r) {
  struct timespec until;
  pthread_mutex_lock(&c->lock);
  int waited = 0;
  if (c->first == NULL && !c->final && milliseconds > 0) {
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += milliseconds / 1000;
    until.tv_nsec += milliseconds % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    while (c->first == NULL && !c->final && waited == 0)
      waited = pthread_cond_timedwait(&c->arrived, &c->lock, &until);
  }
  waiting *w = c->first;
  int result = w != NULL ? 1 + w->final : c->final ? 0 : -1;
  if (w != NULL) {
    c->first = w->next;
    if (c->first == NULL) c->last = &c->first;
  }
  pthread_mutex_unlock(&c->lock);
  *r = w == NULL ? NULL : w->response;
  free(w);
  return result;
}

// done says whether the final response has come and no other one waits.
static bool done(call *c) {
  pthread_mutex_lock(&c->lock);
  bool is = c->final && c->first == NULL;
  pthread_mutex_unlock(&c->lock);
  return is;
}

// NEREID_CallCancel cancels a request. Its final response still comes.
void NEREID_CallCancel(call *c) {
  pthread_mutex_lock(&c->lock);
  bool open = !c->final;
  pthread_mutex_unlock(&c->lock);
  if (open) TRITONSERVER_InferenceRequestCancel(c->request);  // the call has the request, so it still exists
}

// NEREID_CallDelete cancels a request that is not answered, and drops its responses.
void NEREID_CallDelete(call *c) {
  NEREID_CallCancel(c);
  pthread_mutex_lock(&c->lock);
  bool last = c->final && !c->responding;
  c->deleted = true;
  pthread_mutex_unlock(&c->lock);
  if (last) free_call(c);
}

// NEREID_Infer sends a request with inputs and waits at most so long for its first response. It writes the call, the
// response or 0, and the words of NEREID_ResponseOutputs with their count before them, which is -1 for an error. A call
// that is done is deleted and written as 0.
error NEREID_Infer(TRITONSERVER_Server *s, const char *model, int64_t version, const int64_t *inputs, uint32_t count,
    int64_t milliseconds, int64_t *words, uint64_t room) {
  TRITONSERVER_InferenceRequest *q;
  TRITONSERVER_InferenceResponse *r;
  call *c;
  NEED(s, "server");
  q = nt_new_request(model, version);  // the model is looked up when the request is sent
  error e;
  if ((e = NEREID_RequestAddInputs(q, inputs, count)) != NULL) {
    TRITONSERVER_InferenceRequestDelete(q);
    return e;
  }
  if ((e = NEREID_CallNew(&c, s, q, -1, 0)) != NULL) return e;
  NEREID_CallNext(c, milliseconds, &r);
  bool over = done(c);
  if (over) NEREID_CallDelete(c);
  words[0] = over ? 0 : (int64_t)c;
  words[1] = (int64_t)r;
  words[2] = r == NULL ? 0 : r->failure != NULL ? -1 : (int64_t)NEREID_ResponseOutputs(r, words + 3, room - 3);
  return NULL;
}

// NEREID_ServerOptionsAdd adds an option of nereid serve: "--http-port=8000".
void NEREID_ServerOptionsAdd(TRITONSERVER_ServerOptions *o, const char *text) { option_text(o, text); }
