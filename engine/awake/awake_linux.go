//go:build cgo

package awake

/*
#cgo LDFLAGS: -lpthread
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct nrd_awake {
  _Atomic int64_t until;   // of the monotonic clock, in ns
  _Atomic uint32_t going;  // 1: the threads run, or are being woken; 0: they sleep, or are about to
  _Atomic uint32_t ending;
} nrd_awake;

typedef struct nrd_thread {
  nrd_awake *a;
  int core;
} nrd_thread;

static int64_t nrd_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void nrd_wake(nrd_awake *a) {
  syscall(SYS_futex, &a->going, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void nrd_rest(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void *nrd_run(void *arg) {
  nrd_thread t = *(nrd_thread *)arg;
  free(arg);
  struct sched_param none = {0};
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(t.core, &set);
  // Only a thread that all others of its group go before may run for nothing, and only where it is meant to.
  if (pthread_setschedparam(pthread_self(), SCHED_IDLE, &none) || pthread_setaffinity_np(pthread_self(), sizeof set, &set)) return NULL;
  while (!atomic_load(&t.a->ending)) {
    if (nrd_now() < atomic_load(&t.a->until)) {
      for (int i = 0; i < 32; i++) nrd_rest();
      continue;
    }
    atomic_store(&t.a->going, 0);
    if (nrd_now() < atomic_load(&t.a->until) || atomic_load(&t.a->ending)) { // put off just now, by who saw going
      atomic_store(&t.a->going, 1);
      nrd_wake(t.a);
      continue;
    }
    syscall(SYS_futex, &t.a->going, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
  }
  return NULL;
}

// nrd_until puts off the moment at which the threads sleep. It makes a system call only if they sleep.
static void nrd_until(nrd_awake *a, int64_t for_ns) {
  atomic_store(&a->until, nrd_now() + for_ns);
  if (!atomic_load(&a->going) && !atomic_exchange(&a->going, 1)) nrd_wake(a);
}

static int nrd_start(nrd_awake *a, int core, pthread_t *id) {
  nrd_thread *t = malloc(sizeof *t);
  if (!t) return ENOMEM;
  t->a = a;
  t->core = core;
  pthread_attr_t attr;
  sigset_t all, before;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, 64 << 10);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); // signals are for Go's threads
  int err = pthread_create(id, &attr, nrd_run, t);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attr);
  if (err) free(t);
  return err;
}

static void nrd_end(nrd_awake *a, pthread_t *ids, int n) {
  atomic_store(&a->ending, 1);
  atomic_store(&a->going, 1);
  nrd_wake(a);
  for (int i = 0; i < n; i++) pthread_join(ids[i], NULL);
}
*/
import "C"

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"nereid/engine/system/affinity"
	"nereid/engine/system/cgroup"
)

// Keeper keeps the cores of this process awake. A nil one does nothing. It is safe for concurrent use.
type Keeper struct {
	cores []int
	start sync.Once
	c     *C.nrd_awake // nil until the first Until
	ids   []C.pthread_t
}

// New returns a Keeper, nil where there must be none: where the process may run on more than the given number of cores, since
// who waits is woken on any of them and to keep all awake is too much, and where a control group bounds its CPU time, which
// would be spent for nothing. The caller closes it.
func New(cores int) *Keeper {
	have, err := affinity.Cores()
	if err != nil || len(have) > cores || bounded(cgroup.Own("cpu")) {
		return nil
	}
	return &Keeper{cores: have}
}

// bounded reports whether the CPU time of a process is bounded by its control group or one of those that it is in, as far as it
// can be seen from inside.
func bounded(g cgroup.Group) bool {
	for _, file := range g.Files("cpu.cfs_quota_us", "cpu.max") {
		b, err := os.ReadFile(file)
		if err == nil && !bytes.HasPrefix(b, []byte("-1")) && !bytes.HasPrefix(b, []byte("max")) {
			return true
		}
	}
	return false
}

// Slow reports whether a core of this machine that idles is slow to wake: whether it is a virtual one, whose halt and whose
// interrupts go through the host. Elsewhere than on x86 it cannot be seen: false.
func Slow() bool {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return false
	}
	_, flags, _ := strings.Cut(string(b), "\nflags")
	flags, _, _ = strings.Cut(flags, "\n")
	return slices.Contains(strings.Fields(flags), "hypervisor")
}

// Until keeps the cores awake for d from now, in place of what was said before. It makes a system call only when they are not.
func (k *Keeper) Until(d time.Duration) {
	if k == nil {
		return
	}
	k.start.Do(k.run)
	C.nrd_until(k.c, C.int64_t(d))
}

// run starts the threads, those that can be.
func (k *Keeper) run() {
	k.c = (*C.nrd_awake)(C.calloc(1, C.sizeof_nrd_awake))
	k.ids = make([]C.pthread_t, 0, len(k.cores))
	for _, core := range k.cores {
		var id C.pthread_t
		if C.nrd_start(k.c, C.int(core), &id) == 0 {
			k.ids = append(k.ids, id)
		}
	}
}

// Close ends the threads. Nobody may call Until any more.
func (k *Keeper) Close() {
	if k == nil {
		return
	}
	k.start.Do(func() {})
	if k.c == nil {
		return
	}
	if len(k.ids) > 0 {
		C.nrd_end(k.c, &k.ids[0], C.int(len(k.ids)))
	}
	C.free(unsafe.Pointer(k.c))
	k.c, k.ids = nil, nil
}
