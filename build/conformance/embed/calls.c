// For test_embed.py. calls REPOSITORY uses the functions of the Python package: answers that are taken, that wait, that
// are never taken, and calls that are dropped before they are answered.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "must.h"

typedef struct call call;
typedef TRITONSERVER_InferenceRequest request;
typedef TRITONSERVER_InferenceResponse response;

error *NEREID_RequestAddInputs(request *q, const int64_t *words, uint32_t count);
uint64_t NEREID_ResponseOutputs(response *r, int64_t *words, uint64_t room);
error *NEREID_CallNew(call **made, TRITONSERVER_Server *s, request *q, int fd, uint64_t tag);
int NEREID_CallNext(call *c, int64_t milliseconds, response **r);
void NEREID_CallCancel(call *c);
void NEREID_CallDelete(call *c);
error *NEREID_Infer(TRITONSERVER_Server *s, const char *model, int64_t version, const int64_t *inputs, uint32_t count,
    int64_t milliseconds, int64_t *words, uint64_t room);
void NEREID_ServerOptionsAdd(TRITONSERVER_ServerOptions *o, const char *text);
error *NEREID_FrontNew(uintptr_t *front, TRITONSERVER_Server *s, TRITONSERVER_ServerOptions *o);
void NEREID_FrontDelete(uintptr_t front);

enum { words_of_input = 7, minute = 60000 };

static TRITONSERVER_Server *server;
static const float values[4] = {5, 1, 9, 2};

// An input in the form that the package sends.
static void write_input(int64_t *words, const char *name) {
  const int64_t all[words_of_input] = {
      (int64_t)name, TRITONSERVER_TYPE_FP32, (int64_t)values, sizeof values, 2, 1, 4};
  memcpy(words, all, sizeof all);
}

static request *new_request(const char *model) {
  int64_t words[words_of_input];
  request *q;
  must(TRITONSERVER_InferenceRequestNew(&q, server, model, -1));
  write_input(words, "INPUT0");
  must(NEREID_RequestAddInputs(q, words, 1));
  return q;
}

// show prints a response and deletes it.
static void show(const char *what, int result, response *r) {
  printf("%s: %d", what, result);
  if (r != NULL) {
    int64_t words[16];
    uint64_t all = NEREID_ResponseOutputs(r, NULL, 0);
    if (all > 16 || NEREID_ResponseOutputs(r, words, 16) != all) exit(2);
    for (uint64_t at = 0; at < all; at += 5 + (uint64_t)words[at + 4])
      printf(" %s %d %g", (const char *)words[at], (int)words[at + 4], ((const float *)words[at + 2])[0]);
    must(TRITONSERVER_InferenceResponseDelete(r));
  }
  printf("\n");
}

// next prints the next response of a call, if there is one, and returns whether there was.
static bool next(const char *what, call *c, int64_t milliseconds) {
  response *r;
  int result = NEREID_CallNext(c, milliseconds, &r);
  show(what, result, r);
  return result > 0;
}

static void infer(const char *what, const char *model, const char *input) {
  int64_t inputs[words_of_input], words[16];
  write_input(inputs, input);
  error *e = NEREID_Infer(server, model, -1, inputs, 1, minute, words, 16);
  if (e != NULL) {
    refused(what, e);
    return;
  }
  printf("%s: call %d, ", what, words[0] != 0);
  show("words", (int)words[2], (response *)words[1]);
  if (words[0] != 0) NEREID_CallDelete((call *)words[0]);
}

static void stream(void) {
  call *c;
  must(NEREID_CallNew(&c, server, new_request("three"), -1, 0));
  while (next("stream", c, minute)) continue;
  NEREID_CallCancel(c);  // nothing is left to cancel
  NEREID_CallDelete(c);

  must(NEREID_CallNew(&c, server, new_request("three"), -1, 0));
  next("first", c, minute);
  NEREID_CallDelete(c);  // the others are dropped
}

// tagged gets the tag of a call by its socket when the response has come.
static void tagged(void) {
  int pair[2];
  call *c;
  uint64_t tag = 0;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) exit(2);
  must(NEREID_CallNew(&c, server, new_request("three"), pair[1], 42));
  if (read(pair[0], &tag, sizeof tag) != sizeof tag) exit(2);
  printf("tag %d\n", (int)tag);
  next("tagged", c, 0);
  close(pair[0]);  // nobody reads any more
  NEREID_CallDelete(c);
  close(pair[1]);
}

int main(int argc, char **argv) {
  TRITONSERVER_ServerOptions *o;
  must(TRITONSERVER_ServerOptionsNew(&o));
  must(TRITONSERVER_ServerOptionsSetModelRepositoryPath(o, argv[1]));
  NEREID_ServerOptionsAdd(o, "--log-info=false");
  must(TRITONSERVER_ServerNew(&server, o));
  must(TRITONSERVER_ServerOptionsDelete(o));
  infer("one", "one", "INPUT0");
  infer("three", "three", "INPUT0");
  infer("no model", "absent", "INPUT0");
  infer("no input", "one", "absent");
  infer("error", "fails", "INPUT0");
  stream();
  tagged();
  must(TRITONSERVER_ServerOptionsNew(&o));
  NEREID_ServerOptionsAdd(o, "--allow-http=true");
  NEREID_ServerOptionsAdd(o, "--http-address=127.0.0.1");
  char port[32];
  snprintf(port, sizeof port, "--http-port=%s", argv[2]);
  NEREID_ServerOptionsAdd(o, port);
  uintptr_t front, second;
  must(NEREID_FrontNew(&front, server, o));
  refused("port", NEREID_FrontNew(&second, server, o));
  must(TRITONSERVER_ServerOptionsDelete(o));
  NEREID_FrontDelete(front);
  must(TRITONSERVER_ServerDelete(server));
  printf("done\n");
  return 0;
}
