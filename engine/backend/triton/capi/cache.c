// The functions that cache libraries use, and the calls of theirs. An entry has buffers; the server's own entries have
// one, an encoded response. A library copies with the allocator, while it holds its own locks.

#include "cache.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef TRITONCACHE_CacheEntry entry;

void nt_find_cache(void *library, nt_cache *c) {
  *(void **)&c->initialize = dlsym(library, "TRITONCACHE_CacheInitialize");
  *(void **)&c->finalize = dlsym(library, "TRITONCACHE_CacheFinalize");
  *(void **)&c->lookup = dlsym(library, "TRITONCACHE_CacheLookup");
  *(void **)&c->insert = dlsym(library, "TRITONCACHE_CacheInsert");
}

error nt_cache_initialize(nt_cache *c, const char *config) { return c->initialize(&c->cache, config); }

error nt_cache_finalize(nt_cache *c) { return c->finalize(c->cache); }

error TRITONCACHE_CacheEntryNew(entry **e) {
  NEED(e, "entry");
  *e = must_have(calloc(1, sizeof **e));
  return NULL;
}

error TRITONCACHE_CacheEntryDelete(entry *e) {
  if (e != NULL) free(e->buffers);
  free(e);
  return NULL;
}

error TRITONCACHE_CacheEntryBufferCount(entry *e, size_t *count) {
  NEED(e, "entry");
  NEED(count, "count");
  *count = e->count;
  return NULL;
}

static error set(cache_buffer *b, void *base, const TRITONSERVER_BufferAttributes *a) {
  if (a != NULL && a->memory == MEMORY_GPU)
    return new_error(CODE_UNSUPPORTED, "a buffer of a cache must be in memory of the CPU");
  b->base = base;
  if (a != NULL) b->attributes = *a;
  return NULL;
}

error TRITONCACHE_CacheEntryAddBuffer(entry *e, void *base, TRITONSERVER_BufferAttributes *a) {
  NEED(e, "entry");
  NEED(a, "buffer attributes");
  if (a->size > 0) NEED(base, "buffer");
  e->buffers = must_have(realloc(e->buffers, (e->count + 1) * sizeof *e->buffers));
  error failure = set(&e->buffers[e->count], base, a);
  if (failure == NULL) e->count++;
  return failure;
}

static error no_buffer(const entry *e, size_t index) {
  return new_error(CODE_INVALID_ARG, "there is no buffer %zu in an entry of %zu", index, e->count);
}

error TRITONCACHE_CacheEntryGetBuffer(entry *e, size_t index, void **base, TRITONSERVER_BufferAttributes *a) {
  NEED(e, "entry");
  NEED(base, "base");
  if (index >= e->count) return no_buffer(e, index);
  *base = e->buffers[index].base;
  if (a != NULL) *a = e->buffers[index].attributes;
  return NULL;
}

// Without attributes, the buffer keeps those that it has.
error TRITONCACHE_CacheEntrySetBuffer(entry *e, size_t index, void *base, TRITONSERVER_BufferAttributes *a) {
  NEED(e, "entry");
  if (index >= e->count) return no_buffer(e, index);
  return set(&e->buffers[index], base, a);
}

// read_entry copies the buffers of an entry that was found, one behind the other.
static void read_entry(TRITONCACHE_Allocator *a, const entry *e) {
  size_t size = 0;
  for (size_t i = 0; i < e->count; i++) size += e->buffers[i].attributes.size;
  free(a->found);
  a->found = must_have(malloc(size + 1));
  a->found_size = 0;
  for (size_t i = 0; i < e->count; i++) {
    const cache_buffer *b = &e->buffers[i];
    if (b->attributes.size > 0) memcpy(a->found + a->found_size, b->base, b->attributes.size);
    a->found_size += b->attributes.size;
  }
}

error TRITONCACHE_Copy(TRITONCACHE_Allocator *a, entry *e) {
  NEED(a, "allocator");
  NEED(e, "entry");
  if (a->from == NULL) {
    read_entry(a, e);
    return NULL;
  }
  if (e->count != 1 || e->buffers[0].attributes.size < a->size || e->buffers[0].base == NULL)
    return new_error(CODE_INVALID_ARG, "the buffers of the entry have no room for its %zu bytes", a->size);
  if (e->buffers[0].base != a->from) memcpy(e->buffers[0].base, a->from, a->size);
  return NULL;
}

error nt_cache_lookup(nt_cache *c, const char *key, char **data, size_t *size) {
  entry e = {NULL, 0};
  TRITONCACHE_Allocator a = {NULL, 0, NULL, 0};
  error failure = c->lookup(c->cache, key, &e, &a);
  if (failure == NULL && a.found == NULL) read_entry(&a, &e);  // the library has left the copy to us
  free(e.buffers);
  if (failure != NULL) {
    free(a.found);
    return failure;
  }
  *data = a.found;
  *size = a.found_size;
  return NULL;
}

error nt_cache_insert(nt_cache *c, const char *key, const char *data, size_t size) {
  cache_buffer b = {(void *)data, {.size = size, .memory = MEMORY_CPU}};
  entry e = {must_have(malloc(sizeof b)), 1};
  *e.buffers = b;
  TRITONCACHE_Allocator a = {data, size, NULL, 0};
  error failure = c->insert(c->cache, key, &e, &a);
  free(e.buffers);
  return failure;
}
