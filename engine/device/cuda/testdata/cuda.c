/* A libcuda.so.1 for tests on machines without a GPU: the calls that shared memory needs, over files.

   FAKE_GPU_FOLDER holds what processes share: a file for each allocation, "open.PID.N" for each handle that a process has
   open, "context.PID.D" for each context, and "fault", which tests write: "cuIpcOpenMemHandle 2" makes the call return 2.
   FAKE_GPUS is how many cards there are (2), CUDA_VISIBLE_DEVICES their choice by number. Device addresses cannot be read by
   the host. Copies are made when their stream is synchronized, not before. As in the real driver, calls need a current
   context, a handle cannot be opened where it was made, and these cards cannot reach each other's memory.

   cc -shared -fPIC -I<folder of cuda.h> -o libcuda.so.1 cuda.c */
#define _GNU_SOURCE
#include <cuda.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

enum { MAX_GPUS = 8, DEPTH = 16, CARD = 1 << 30 };

struct handle { char magic[8]; uint64_t id, size; uint32_t card; char rest[64 - 28]; };
_Static_assert(sizeof(struct handle) == sizeof(CUipcMemHandle), "a handle has 64 bytes");

struct memory { struct memory *next; CUdeviceptr base; size_t size; int card, fd, refs, imported, opened; uint64_t id; };
struct copy { struct copy *next; struct memory *memory, *from; off_t at, from_at; size_t n; void *host; int to_device; };
struct CUstream_st { int card; struct copy *first, **last; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct memory *memories;
static int cards[MAX_GPUS], count = -1, retained[MAX_GPUS], opened;
static __thread int stack[DEPTH], depth;

static const char *path(char *to, const char *format, ...) {
	va_list list;
	char name[128];
	va_start(list, format);
	vsnprintf(name, sizeof name, format, list);
	va_end(list);
	const char *folder = getenv("FAKE_GPU_FOLDER");
	snprintf(to, 4096, "%s/%s", folder ? folder : "/tmp", name);
	return to;
}

static int make(const char *p) { return open(p, O_RDWR | O_CREAT | O_CLOEXEC, 0600); }

/* fault returns what the test wants the call to return, 0 for nothing. The header adds _v2 to the names of some calls. */
static CUresult fault(const char *call) {
	char p[4096], name[64];
	int code;
	FILE *f = fopen(path(p, "fault"), "re");
	if (f == NULL) return 0;
	CUresult r = 0;
	while (fscanf(f, "%63s %d", name, &code) == 2)
		if (strncmp(call, name, strlen(name)) == 0 && (call[strlen(name)] == 0 || call[strlen(name)] == '_')) r = code;
	fclose(f);
	return r;
}

#define BEGIN                                            \
	CUresult injected = fault(__func__);                 \
	if (injected != 0) return injected;                  \
	if (count < 0) return CUDA_ERROR_NOT_INITIALIZED
#define CONTEXT BEGIN; if (depth == 0) return CUDA_ERROR_INVALID_CONTEXT

CUresult cuInit(unsigned flags) {
	CUresult injected = fault("cuInit");
	if (injected != 0) return injected;
	const char *have = getenv("FAKE_GPUS"), *visible = getenv("CUDA_VISIBLE_DEVICES");
	int n = have ? atoi(have) : 2, seen = 0;
	if (visible == NULL)
		while (seen < n && seen < MAX_GPUS) cards[seen] = seen, seen++;
	else
		for (char *end; *visible && seen < MAX_GPUS; visible = *end ? end + 1 : end) {
			long card = strtol(visible, &end, 10);
			if (end == visible || card < 0 || card >= n) break;
			cards[seen++] = card;
		}
	if (seen == 0) return CUDA_ERROR_NO_DEVICE;
	count = seen;
	return 0;
}

CUresult cuDriverGetVersion(int *v) { *v = 12090; return 0; }
CUresult cuDeviceGetCount(int *n) { BEGIN; *n = count; return 0; }
CUresult cuDeviceGet(CUdevice *d, int i) { BEGIN; *d = i; return i < 0 || i >= count ? CUDA_ERROR_INVALID_DEVICE : 0; }

CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) {
	BEGIN;
	char p[4096];
	pthread_mutex_lock(&lock);
	if (retained[d]++ == 0) close(make(path(p, "context.%d.%d", getpid(), cards[d])));
	pthread_mutex_unlock(&lock);
	*c = (CUcontext)(uintptr_t)(0x1000 + d);
	return 0;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice d) {
	BEGIN;
	char p[4096];
	pthread_mutex_lock(&lock);
	if (--retained[d] == 0) unlink(path(p, "context.%d.%d", getpid(), cards[d]));
	pthread_mutex_unlock(&lock);
	return 0;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice d, unsigned *flags, int *active) { BEGIN; *flags = 0; *active = retained[d] > 0; return 0; }

CUresult cuCtxPushCurrent(CUcontext c) {
	BEGIN;
	int d = (int)((uintptr_t)c - 0x1000);
	if (d < 0 || d >= count || retained[d] == 0 || depth == DEPTH) return CUDA_ERROR_INVALID_CONTEXT;
	stack[depth++] = d;
	return 0;
}

CUresult cuCtxPopCurrent(CUcontext *c) {
	CONTEXT;
	*c = (CUcontext)(uintptr_t)(0x1000 + stack[--depth]);
	return 0;
}

static int current(void) { return cards[stack[depth - 1]]; }

/* find returns the memory that has n bytes at p. The caller holds the lock. */
static struct memory *find(CUdeviceptr p, size_t n) {
	for (struct memory *m = memories; m != NULL; m = m->next)
		if (p >= m->base && p - m->base <= m->size && n <= m->size - (p - m->base)) return m;
	return NULL;
}

static struct memory *add(uint64_t id, size_t size, int card, int fd) {
	void *base = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED) return NULL;
	struct memory *m = calloc(1, sizeof *m);
	*m = (struct memory){.next = memories, .base = (CUdeviceptr)base, .size = size, .card = card, .fd = fd, .refs = 1, .id = id};
	memories = m;
	return m;
}

static void drop(struct memory *m) {
	struct memory **at = &memories;
	while (*at != m) at = &(*at)->next;
	*at = m->next;
	munmap((void *)m->base, m->size);
	close(m->fd);
	free(m);
}

CUresult cuMemAlloc(CUdeviceptr *to, size_t size) {
	CONTEXT;
	char p[4096];
	uint64_t id;
	if (size == 0) return CUDA_ERROR_INVALID_VALUE;
	if (size > CARD) return CUDA_ERROR_OUT_OF_MEMORY;
	if (getrandom(&id, sizeof id, 0) != sizeof id) return CUDA_ERROR_UNKNOWN;
	int fd = make(path(p, "memory.%016lx", (unsigned long)id));
	if (fd < 0 || ftruncate(fd, size) != 0) return CUDA_ERROR_UNKNOWN;
	pthread_mutex_lock(&lock);
	struct memory *m = add(id, size, current(), fd);
	pthread_mutex_unlock(&lock);
	if (m == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
	*to = m->base;
	return 0;
}

CUresult cuMemFree(CUdeviceptr at) {
	CONTEXT;
	char p[4096];
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	struct memory *m = find(at, 1);
	if (m != NULL && m->base == at && !m->imported) {
		unlink(path(p, "memory.%016lx", (unsigned long)m->id));
		drop(m);
		r = 0;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *size, CUdeviceptr p) {
	CONTEXT;
	pthread_mutex_lock(&lock);
	struct memory *m = find(p, 1);
	if (m != NULL) *base = m->base, *size = m->size;
	pthread_mutex_unlock(&lock);
	return m == NULL ? CUDA_ERROR_NOT_FOUND : 0;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *to, CUdeviceptr p) {
	CONTEXT;
	pthread_mutex_lock(&lock);
	struct memory *m = find(p, 1);
	struct handle h = {.magic = "FAKEIPC"};
	if (m != NULL) h.id = m->id, h.size = m->size, h.card = m->card;
	pthread_mutex_unlock(&lock);
	memcpy(to, &h, sizeof h);
	return m == NULL || m->imported ? CUDA_ERROR_INVALID_VALUE : 0;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *to, CUipcMemHandle handle, unsigned flags) {
	CONTEXT;
	char p[4096];
	struct handle h;
	memcpy(&h, &handle, sizeof h);
	if (memcmp(h.magic, "FAKEIPC", 8) != 0) return CUDA_ERROR_INVALID_VALUE;
	if ((int)h.card != current()) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	CUresult r = 0;
	pthread_mutex_lock(&lock);
	struct memory *m = memories;
	while (m != NULL && m->id != h.id) m = m->next;
	if (m != NULL && !m->imported) {
		r = CUDA_ERROR_INVALID_CONTEXT;
	} else if (m != NULL) {
		m->refs++;
	} else {
		int fd = open(path(p, "memory.%016lx", (unsigned long)h.id), O_RDWR | O_CLOEXEC);
		m = fd < 0 ? NULL : add(h.id, h.size, h.card, fd);
		if (m == NULL) r = CUDA_ERROR_INVALID_VALUE;
		else {
			m->imported = 1, m->opened = opened++;
			close(make(path(p, "open.%d.%d", getpid(), m->opened)));
		}
	}
	if (r == 0) *to = m->base;
	pthread_mutex_unlock(&lock);
	return r;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr at) {
	CONTEXT;
	char p[4096];
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	struct memory *m = find(at, 1);
	if (m != NULL && m->base == at && m->imported) {
		if (--m->refs == 0) {
			unlink(path(p, "open.%d.%d", getpid(), m->opened));
			drop(m);
		}
		r = 0;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

CUresult cuStreamCreate(CUstream *s, unsigned flags) {
	CONTEXT;
	*s = calloc(1, sizeof **s);
	(*s)->card = current();
	(*s)->last = &(*s)->first;
	return 0;
}

CUresult cuStreamDestroy(CUstream s) {
	CONTEXT;
	if (s->first != NULL) return CUDA_ERROR_NOT_READY; /* the real one would wait; nobody here may rely on it */
	free(s);
	return 0;
}

static CUresult enqueue(CUstream s, CUdeviceptr p, void *host, size_t n, int to_device) {
	if (s == NULL || s->card != current()) return CUDA_ERROR_INVALID_HANDLE;
	CUresult r = 0;
	pthread_mutex_lock(&lock);
	struct memory *m = find(p, n);
	if (m == NULL) r = CUDA_ERROR_INVALID_VALUE;
	else {
		struct copy *c = calloc(1, sizeof *c);
		*c = (struct copy){.memory = m, .at = (off_t)(p - m->base), .n = n, .host = host, .to_device = to_device};
		if (to_device) c->host = memcpy(malloc(n), host, n);
		*s->last = c;
		s->last = &c->next;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t n, CUstream s) { CONTEXT; return enqueue(s, to, (void *)from, n, 1); }
CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t n, CUstream s) { CONTEXT; return enqueue(s, from, to, n, 0); }

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
	CONTEXT;
	if (s == NULL || s->card != current()) return CUDA_ERROR_INVALID_HANDLE;
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	struct memory *m = find(to, n), *o = find(from, n);
	if (m != NULL && o != NULL && m->card == s->card && o->card == s->card) {
		struct copy *c = calloc(1, sizeof *c);
		*c = (struct copy){.memory = m, .at = (off_t)(to - m->base), .from = o, .from_at = (off_t)(from - o->base), .n = n};
		*s->last = c;
		s->last = &c->next;
		r = 0;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

/* within makes a copy between two files. */
static ssize_t within(const struct copy *c) {
	void *b = malloc(c->n);
	ssize_t n = pread(c->from->fd, b, c->n, c->from_at);
	if (n == (ssize_t)c->n) n = pwrite(c->memory->fd, b, c->n, c->at);
	free(b);
	return n;
}

/* Page-locked memory is a file's, too, so that tests see what is left: "pinned.PID.ADDRESS". Unlike a card's, the host reads it. */
CUresult cuMemHostAlloc(void **to, size_t n, unsigned flags) {
	CONTEXT;
	char p[4096];
	if (n == 0 || flags != CU_MEMHOSTALLOC_PORTABLE) return CUDA_ERROR_INVALID_VALUE;
	if (posix_memalign(to, 4096, n) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
	close(make(path(p, "pinned.%d.%lx", getpid(), (unsigned long)*to)));
	return 0;
}

CUresult cuMemFreeHost(void *at) {
	CONTEXT;
	char p[4096];
	if (unlink(path(p, "pinned.%d.%lx", getpid(), (unsigned long)at)) != 0) return CUDA_ERROR_INVALID_VALUE;
	free(at);
	return 0;
}

CUresult cuStreamSynchronize(CUstream s) {
	CUresult r = fault(__func__);
	if (depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&lock);
	while (s->first != NULL) { /* what fails is dropped, too */
		struct copy *c = s->first;
		ssize_t n = r != 0 ? 0 : c->from != NULL ? within(c) : c->to_device ? pwrite(c->memory->fd, c->host, c->n, c->at) : pread(c->memory->fd, c->host, c->n, c->at);
		if (r == 0 && n != (ssize_t)c->n) r = CUDA_ERROR_ILLEGAL_ADDRESS;
		s->first = c->next;
		if (c->to_device) free(c->host);
		free(c);
	}
	s->last = &s->first;
	pthread_mutex_unlock(&lock);
	return r;
}

static const struct { CUresult code; const char *name, *text; } errors[] = {
	{0, "CUDA_SUCCESS", "no error"},
	{CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	{CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	{CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	{CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported between these two devices"},
	{CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
};

static CUresult say(CUresult code, const char **to, int name) {
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (errors[i].code == code) {
			*to = name ? errors[i].name : errors[i].text;
			return 0;
		}
	*to = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult code, const char **to) { return say(code, to, 0); }
CUresult cuGetErrorName(CUresult code, const char **to) { return say(code, to, 1); }
