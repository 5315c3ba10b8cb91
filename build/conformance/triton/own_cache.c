// A cache library for test_triton_caches.py. It keeps entries in a list. Settings: "most", how many it keeps; "fail", a
// file at whose presence a lookup removes it and ends the process.
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "triton.h"

typedef struct TRITONCACHE_CacheEntry Entry;
typedef struct TRITONCACHE_Allocator Allocator;
typedef struct TRITONSERVER_BufferAttributes Attributes;

Error *TRITONSERVER_BufferAttributesNew(Attributes **);
Error *TRITONSERVER_BufferAttributesDelete(Attributes *);
Error *TRITONSERVER_BufferAttributesByteSize(Attributes *, size_t *);
Error *TRITONSERVER_BufferAttributesSetByteSize(Attributes *, size_t);
Error *TRITONCACHE_ApiVersion(uint32_t *major, uint32_t *minor);
Error *TRITONCACHE_CacheEntryBufferCount(Entry *, size_t *);
Error *TRITONCACHE_CacheEntryAddBuffer(Entry *, void *base, Attributes *);
Error *TRITONCACHE_CacheEntryGetBuffer(Entry *, size_t index, void **base, Attributes *);
Error *TRITONCACHE_CacheEntrySetBuffer(Entry *, size_t index, void *base, Attributes *);
Error *TRITONCACHE_Copy(Allocator *, Entry *);

typedef struct item {
  struct item *next;
  char *key;
  void *data;
  size_t size;
} item;

typedef struct {
  item *first;
  int count, most;
  char fail[256];
} Cache;

enum { INTERNAL = 1, NOT_FOUND = 2, INVALID_ARG = 3, ALREADY_EXISTS = 6 };

// setting returns the text behind a setting's name in the configuration, "" for none.
static const char *setting(const char *config, const char *name) {
  char quoted[64];
  snprintf(quoted, sizeof quoted, "\"%s\":\"", name);
  const char *at = strstr(config, quoted);
  return at == NULL ? "" : at + strlen(quoted);
}

Error *TRITONCACHE_CacheInitialize(Cache **cache, const char *config) {
  uint32_t major, minor;
  Error *e = TRITONCACHE_ApiVersion(&major, &minor);
  if (e != NULL || major != 0 || minor < 1) return e;
  Cache *c = calloc(1, sizeof *c);
  c->most = atoi(setting(config, "most"));
  sscanf(setting(config, "fail"), "%255[^\"]", c->fail);
  if (c->most == 0) {
    free(c);
    return TRITONSERVER_ErrorNew(INVALID_ARG, "own needs the setting most");
  }
  *cache = c;
  return TRITONSERVER_LogMessage(1, __FILE__, __LINE__, "own begins");
}

Error *TRITONCACHE_CacheFinalize(Cache *c) { return TRITONSERVER_LogMessage(1, __FILE__, __LINE__, "own ends"); }

static item *find(Cache *c, const char *key) {
  item *i = c->first;
  while (i != NULL && strcmp(i->key, key) != 0) i = i->next;
  return i;
}

Error *TRITONCACHE_CacheLookup(Cache *c, const char *key, Entry *entry, Allocator *a) {
  if (c->fail[0] != 0 && unlink(c->fail) == 0) raise(SIGKILL);
  item *i = find(c, key);
  if (i == NULL) return TRITONSERVER_ErrorNew(NOT_FOUND, "key not found");
  Attributes *attributes;
  Error *e = TRITONSERVER_BufferAttributesNew(&attributes);
  if (e == NULL) e = TRITONSERVER_BufferAttributesSetByteSize(attributes, i->size);
  if (e == NULL) e = TRITONCACHE_CacheEntryAddBuffer(entry, i->data, attributes);
  if (e == NULL) e = TRITONSERVER_BufferAttributesDelete(attributes);
  return e == NULL ? TRITONCACHE_Copy(a, entry) : e;
}

Error *TRITONCACHE_CacheInsert(Cache *c, const char *key, Entry *entry, Allocator *a) {
  if (find(c, key) != NULL) return TRITONSERVER_ErrorNew(ALREADY_EXISTS, "key exists");
  if (c->count == c->most) return TRITONSERVER_ErrorNew(INTERNAL, "own is full");
  size_t buffers;
  void *base;
  Attributes *attributes;
  item *i = calloc(1, sizeof *i);
  i->key = strdup(key);
  Error *e = TRITONCACHE_CacheEntryBufferCount(entry, &buffers);
  if (e == NULL && buffers != 1) e = TRITONSERVER_ErrorNew(INTERNAL, "own keeps one buffer");
  if (e == NULL) e = TRITONSERVER_BufferAttributesNew(&attributes);
  if (e == NULL) e = TRITONCACHE_CacheEntryGetBuffer(entry, 0, &base, attributes);
  if (e == NULL) e = TRITONSERVER_BufferAttributesByteSize(attributes, &i->size);
  if (e == NULL) e = TRITONSERVER_BufferAttributesDelete(attributes);
  i->data = malloc(i->size);
  if (e == NULL) e = TRITONCACHE_CacheEntrySetBuffer(entry, 0, i->data, NULL);
  if (e == NULL) e = TRITONCACHE_Copy(a, entry);
  if (e != NULL) return e;
  i->next = c->first;
  c->first = i;
  c->count++;
  return NULL;
}
