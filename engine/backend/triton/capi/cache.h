// Cache libraries.
#ifndef NT_TRITON_CACHE_H
#define NT_TRITON_CACHE_H

#include "object.h"

typedef struct TRITONCACHE_Cache TRITONCACHE_Cache;  // the library's
typedef struct TRITONCACHE_CacheEntry TRITONCACHE_CacheEntry;
typedef struct TRITONCACHE_Allocator TRITONCACHE_Allocator;

typedef struct {
  void *base;
  TRITONSERVER_BufferAttributes attributes;
} cache_buffer;

struct TRITONCACHE_CacheEntry {
  cache_buffer *buffers;
  size_t count;
};

// An allocator copies between an entry and the server: from, if it is not NULL, into the entry, else into found.
struct TRITONCACHE_Allocator {
  const char *from;
  size_t size;
  char *found;
  size_t found_size;
};

// A library's functions, and its cache. None is NULL.
typedef struct {
  error (*initialize)(TRITONCACHE_Cache **, const char *config);
  error (*finalize)(TRITONCACHE_Cache *);
  error (*lookup)(TRITONCACHE_Cache *, const char *key, TRITONCACHE_CacheEntry *, TRITONCACHE_Allocator *);
  error (*insert)(TRITONCACHE_Cache *, const char *key, TRITONCACHE_CacheEntry *, TRITONCACHE_Allocator *);
  TRITONCACHE_Cache *cache;
} nt_cache;

void nt_find_cache(void *library, nt_cache *c);
error nt_cache_initialize(nt_cache *c, const char *config);
error nt_cache_finalize(nt_cache *c);
// nt_cache_lookup returns what was inserted with a key, which is the caller's and malloc's. The library's error for a
// key that it does not have is NOT_FOUND.
error nt_cache_lookup(nt_cache *c, const char *key, char **data, size_t *size);
error nt_cache_insert(nt_cache *c, const char *key, const char *data, size_t size);

#endif
