// The memory of tensors on the CPU, for all sessions.
//
// By default each session of ONNX Runtime has an arena, which keeps the memory of the largest run until the session ends.
// The memory of a server then grows with the number of its models. Here all sessions share what is kept, and it has a limit.
//
// Small blocks come from malloc. Large ones would be taken from the system each time (see tame_allocator), so those that
// a run has freed are kept for the next run. Weights are not.
//
// Some operators, such as Concat, leave a part of their output unwritten if an input has no elements: it would show what
// an earlier request left there. So memory is cleared while such a run is in progress.
#include "capi.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
  HEADER = 64,      // bytes before a block, for its size; also the alignment of blocks
  TAIL = 32,        // bytes after a block: code for arm64 reads up to 30 of them (MLAS_SYMM_QGEMM_BUF_OVERRUN)
  LARGE = 256 << 10,
  MOST = 64,        // blocks that are kept
};

// The free blocks, the oldest first. Addresses are those of the headers.
static struct {
  pthread_mutex_t lock;
  size_t *blocks[MOST];
  int n;
  size_t limit;
  atomic_size_t bytes;
  atomic_uint_least64_t uses; // how often a block was kept or taken
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

static atomic_int clearing; // runs in progress whose memory is cleared before use

static const OrtMemoryInfo *place;
static OrtAllocator *fallback;
static _Thread_local int64_t held; // bytes that this thread has taken and not freed
static _Thread_local int loading;  // this thread makes or closes a session: its blocks are weights, not memory of runs

// remove_kept takes the block at an index out of the list.
static size_t *remove_kept(int i) {
  size_t *b = kept.blocks[i];
  kept.n--;
  for (; i < kept.n; i++) kept.blocks[i] = kept.blocks[i + 1];
  kept.bytes -= *b;
  kept.uses++;
  return b;
}

// take_kept returns the newest free block that fits and is not much too large, or NULL.
static size_t *take_kept(size_t size) {
  size_t *b = NULL;
  pthread_mutex_lock(&kept.lock);
  for (int i = kept.n - 1; i >= 0 && !b; i--)
    if (*kept.blocks[i] >= size && *kept.blocks[i] - size <= size / 4) b = remove_kept(i);
  pthread_mutex_unlock(&kept.lock);
  return b;
}

static void keep(size_t *b) {
  size_t *old[MOST];
  int n = 0;
  pthread_mutex_lock(&kept.lock);
  if (*b > kept.limit) {
    old[n++] = b;
  } else {
    while (kept.n == MOST || kept.bytes + *b > kept.limit) old[n++] = remove_kept(0);
    kept.blocks[kept.n++] = b;
    kept.bytes += *b;
    kept.uses++;
  }
  pthread_mutex_unlock(&kept.lock);
  while (n > 0) free(old[--n]);
}

// fresh returns a new block, or NULL. It frees what is kept if there is no other memory.
static size_t *fresh(size_t whole) {
  void *b = NULL;
  if (posix_memalign(&b, HEADER, whole)) {
    nrd_free_kept();
    if (posix_memalign(&b, HEADER, whole)) return NULL;
  }
  *(size_t *)b = whole;
  return b;
}

// out_of_memory throws the exception that ONNX Runtime's code expects, which C code cannot: it asks ONNX Runtime's own
// allocator for more than any machine has. A block of that allocator would have no header.
static void *out_of_memory(void) {
  void *p = fallback->Alloc(fallback, PTRDIFF_MAX);
  if (p) fallback->Free(fallback, p);
  return NULL;
}

static void *ORT_API_CALL take(OrtAllocator *self, size_t size) {
  size_t *b = NULL, whole = size + HEADER + TAIL;
  (void)self;
  if (size == 0) return NULL;
  if (whole < size) return out_of_memory();
  if (whole >= LARGE && !loading) b = take_kept(whole);
  if (!b) b = fresh(whole);
  if (!b) return out_of_memory();
  held += *b;
  if (clearing) memset((char *)b + HEADER, 0, size);
  return (char *)b + HEADER;
}

static void ORT_API_CALL give(OrtAllocator *self, void *p) {
  (void)self;
  if (!p) return;
  size_t *b = (size_t *)((char *)p - HEADER);
  held -= *b;
  if (*b >= LARGE && !loading)
    keep(b);
  else
    free(b);
}

static const OrtMemoryInfo *ORT_API_CALL where(const OrtAllocator *self) {
  (void)self;
  return place;
}

OrtStatus *nrd_share_memory(const OrtApi *api, OrtEnv *env, const OrtMemoryInfo *cpu, OrtAllocator *standard) {
  static OrtAllocator a = {.version = ORT_API_VERSION, .Alloc = take, .Free = give, .Info = where, .Reserve = take};
  place = cpu;
  fallback = standard;
  return api->RegisterAllocator(env, &a);
}

void nrd_clear(int by) { clearing += by; }
int64_t nrd_held(void) { return held; }
void nrd_loading(int on) { loading = on; }

void nrd_keep_memory(size_t limit) {
  pthread_mutex_lock(&kept.lock);
  kept.limit = limit;
  pthread_mutex_unlock(&kept.lock);
}

size_t nrd_kept_bytes(void) { return kept.bytes; }
uint64_t nrd_kept_uses(void) { return kept.uses; }

void nrd_free_kept(void) {
  size_t *old[MOST];
  int n = 0;
  pthread_mutex_lock(&kept.lock);
  while (kept.n > 0) old[n++] = remove_kept(kept.n - 1);
  pthread_mutex_unlock(&kept.lock);
  while (n > 0) free(old[--n]);
}
