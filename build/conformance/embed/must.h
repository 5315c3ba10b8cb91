// What the programs here do with errors.
#ifndef EMBED_MUST_H
#define EMBED_MUST_H

#include <stdio.h>
#include <stdlib.h>
#include <triton/core/tritonserver.h>

typedef TRITONSERVER_Error error;

// must ends the program with the error of a call that must succeed.
static inline void must(error *e) {
  if (e == NULL) return;
  fprintf(stderr, "%s: %s\n", TRITONSERVER_ErrorCodeString(e), TRITONSERVER_ErrorMessage(e));
  exit(1);
}

// refused prints the error of a call that must fail, and ends the program if there is none.
static inline void refused(const char *what, error *e) {
  if (e == NULL) {
    fprintf(stderr, "%s: no error\n", what);
    exit(1);
  }
  printf("%s: %d %s: %s\n", what, TRITONSERVER_ErrorCode(e), TRITONSERVER_ErrorCodeString(e),
      TRITONSERVER_ErrorMessage(e));
  TRITONSERVER_ErrorDelete(e);
}

#endif
