// A program that calls the allocator of memory.c without ONNX Runtime. It writes what is wrong to stderr.
#define posix_memalign sometimes_memalign
#include "../memory.c"
#undef posix_memalign

#include <stdint.h>
#include <stdio.h>

static int failures;    // how many of the next allocations fail
static size_t last;     // bytes of the last allocation
static size_t askedFor; // bytes that the fallback was asked for
static OrtAllocator *shared;

int posix_memalign(void **p, size_t alignment, size_t size);

int sometimes_memalign(void **p, size_t alignment, size_t size) {
  last = size;
  if (failures > 0) {
    failures--;
    return 12; // ENOMEM
  }
  return posix_memalign(p, alignment, size);
}

// fallback_alloc has memory again. ONNX Runtime's throws an exception if it has none.
static void *ORT_API_CALL fallback_alloc(OrtAllocator *self, size_t size) {
  (void)self;
  askedFor = size;
  return size < PTRDIFF_MAX ? malloc(size) : NULL;
}

static void ORT_API_CALL fallback_free(OrtAllocator *self, void *p) {
  (void)self;
  free(p);
}

static OrtStatusPtr ORT_API_CALL registered(OrtEnv *env, OrtAllocator *a) {
  (void)env;
  shared = a;
  return NULL;
}

static void want(int ok, const char *what) {
  if (!ok) fprintf(stderr, "%s\n", what);
}

static void *get(size_t n) { return shared->Alloc(shared, n); }
static void put(void *p) { shared->Free(shared, p); }

static void test_alignment(void) {
  void *p = get(1000);
  want((uintptr_t)p % 64 == 0, "a block is not aligned");
  want(last >= HEADER + 1000 + 30, "code for arm64 reads 30 bytes behind a block, and nothing is there");
  put(p);
  want(get(0) == NULL, "no bytes are a block");
  put(NULL);
}

static void test_reuse(void) {
  nrd_keep_memory(1 << 20);
  void *p = get(800 << 10);
  put(p);
  want(nrd_kept_bytes() >= 800 << 10, "a freed block is not kept");
  void *small = get(500 << 10);
  want(small != p, "a block is used for one that is much smaller");
  void *again = get(700 << 10);
  want(again == p, "a kept block is not used again");
  put(again);
  put(small);
  want(nrd_kept_bytes() <= 1 << 20, "more is kept than the limit");
  void *large = get(2 << 20);
  put(large);
  want(nrd_kept_bytes() > 0, "a block above the limit has ended the others");
  nrd_free_kept();
  want(nrd_kept_bytes() == 0, "memory is left");
}

// A load or an unload neither takes what runs have left nor adds to it.
static void test_weights(void) {
  nrd_keep_memory(4 << 20);
  void *run = get(800 << 10), *weights = get(800 << 10);
  put(run);
  size_t before = nrd_kept_bytes();
  nrd_loading(1);
  put(weights);
  weights = get(800 << 10);
  want(nrd_kept_bytes() == before, "weights change what is kept for runs");
  put(weights);
  nrd_loading(0);
  nrd_free_kept();
}

static void test_failures(void) {
  nrd_keep_memory(4 << 20);
  put(get(800 << 10));
  failures = 1;
  void *p = get(3 << 20);
  want(p && nrd_kept_bytes() == 0, "kept memory is not freed when there is no other");
  if (p) put(p);
  // If the fallback has memory again, its blocks have no header.
  int64_t held_before = nrd_held();
  failures = 2;
  want(get(1000) == NULL, "a block of the fallback is given away");
  want(askedFor == PTRDIFF_MAX, "the fallback may have the memory that it is asked for");
  failures = 0;
  want(get(SIZE_MAX - 10) == NULL, "the size of a block overflows");
  want(nrd_held() == held_before, "a failure changes what is held");
}

int main(void) {
  static OrtAllocator standard = {.version = ORT_API_VERSION, .Alloc = fallback_alloc, .Free = fallback_free};
  static OrtApi api = {.RegisterAllocator = registered};
  nrd_share_memory(&api, NULL, NULL, &standard);
  test_alignment();
  test_reuse();
  test_weights();
  test_failures();
  return 0;
}
