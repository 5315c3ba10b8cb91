// How the shim reads records that Go has written; see encode.go.
#ifndef NT_TRITON_RECORD_H
#define NT_TRITON_RECORD_H

#include <stdlib.h>
#include <string.h>

#include "object.h"

// cursor reads a record. Everything in it is aligned to 8 bytes.
typedef struct {
  char *at;
} cursor;

static inline uint64_t number(cursor *c) {
  uint64_t v;
  memcpy(&v, c->at, sizeof v);
  c->at += sizeof v;
  return v;
}

// bytes returns the next n bytes and skips them with their padding.
static inline char *bytes(cursor *c, uint64_t n) {
  char *b = c->at;
  c->at += (n + 7) & ~(uint64_t)7;
  return b;
}

// text returns a text, which ends with a zero.
static inline char *text(cursor *c, uint64_t *size) {
  *size = number(c);
  return bytes(c, *size + 1);
}

static inline void read_parameter(cursor *c, TRITONSERVER_Parameter *p) {
  p->name = text(c, &p->size);
  p->type = (int)number(c);
  if (p->type == PARAMETER_STRING) {
    p->text = text(c, &p->size);
    return;
  }
  p->size = 0;
  uint64_t bits = number(c);
  p->integer = (int64_t)bits;
  p->flag = bits != 0;
  memcpy(&p->real, &bits, sizeof p->real);
}

// array returns zeroed memory for some elements; NULL for none.
static inline void *array(uint64_t count, size_t size) { return count == 0 ? NULL : must_have(calloc(count, size)); }

#endif
