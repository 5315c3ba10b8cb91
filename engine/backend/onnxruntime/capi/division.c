#define _GNU_SOURCE
#include "capi.h"

#if defined(__linux__) && defined(__x86_64__)

#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <ucontext.h>

// The library's code, and the handler of SIGFPE that was there before. Set once.
static uintptr_t code_from, code_to, library_base;
static struct sigaction next;

static int find_code(struct dl_phdr_info *info, size_t size, void *unused) {
  (void)size;
  (void)unused;
  if (info->dlpi_addr != library_base) return 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    if (p->p_type != PT_LOAD || !(p->p_flags & PF_X)) continue;
    code_from = library_base + p->p_vaddr;
    code_to = code_from + p->p_memsz;
    return 1;
  }
  return 1;
}

// operand_size returns the bytes of ModRM, SIB and displacement (Intel's manual, volume 2, section 2.1).
static size_t operand_size(const unsigned char *p) {
  int mod = p[0] >> 6, rm = p[0] & 7;
  size_t n = 1;
  if (mod == 3) return n;
  if (rm == 4) {
    n++;
    if (mod == 0 && (p[1] & 7) == 5) return n + 4;
  }
  if (mod == 0 && rm == 5) return n + 4;
  return n + (mod == 1 ? 1 : mod == 2 ? 4 : 0);
}

// step_over gives a division that trapped a result. A signed one of the smallest number gives that number: by -1, as on
// arm64, and by 0 too, because the divisor is not read. Any other is a division by 0, whose quotient is 0. The remainder
// is always 0. It returns 0 if the instruction is not a division.
static int step_over(greg_t *g) {
  const unsigned char *p = (const unsigned char *)g[REG_RIP];
  int narrow = 0, wide = 0;
  for (; *p == 0x66 || *p == 0x2e || *p == 0x3e; p++) narrow |= *p == 0x66;
  if ((*p & 0xf0) == 0x40) wide = *p++ & 8;
  int byte = *p == 0xf6, is_signed = (p[1] >> 3 & 7) == 7;
  if ((*p != 0xf6 && *p != 0xf7) || (p[1] >> 3 & 7) < 6) return 0;
  p++;
  int bits = byte ? 8 : wide ? 64 : narrow ? 16 : 32;
  uint64_t keep = bits == 64 || bits == 32 ? 0 : ~(uint64_t)0xffff; // what the instruction does not write
  uint64_t mask = bits == 64 ? ~(uint64_t)0 : ((uint64_t)1 << bits) - 1, smallest = (uint64_t)1 << (bits - 1);
  uint64_t quotient = is_signed && ((uint64_t)g[REG_RAX] & mask) == smallest ? smallest : 0;
  g[REG_RAX] = (greg_t)(((uint64_t)g[REG_RAX] & keep) | quotient); // of 8 bits, the remainder is in AH
  if (!byte) g[REG_RDX] = (greg_t)((uint64_t)g[REG_RDX] & keep);
  g[REG_RIP] = (greg_t)(p + operand_size(p));
  return 1;
}

static void on_division(int sig, siginfo_t *info, void *context) {
  greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
  uintptr_t at = (uintptr_t)g[REG_RIP];
  if (info->si_code == FPE_INTDIV && at >= code_from && at < code_to && step_over(g)) return;
  if (next.sa_flags & SA_SIGINFO)
    next.sa_sigaction(sig, info, context);
  else if (next.sa_handler == SIG_DFL || next.sa_handler == SIG_IGN)
    signal(sig, SIG_DFL); // the instruction traps again, and ends the process
  else
    next.sa_handler(sig);
}

void nrd_survive_divisions(void *handle) {
  struct link_map *map;
  if (code_from || dlinfo(handle, RTLD_DI_LINKMAP, &map)) return;
  library_base = map->l_addr;
  dl_iterate_phdr(find_code, NULL);
  if (!code_from || sigaction(SIGFPE, NULL, &next)) return;
  struct sigaction own = next; // the mask as before
  own.sa_sigaction = on_division;
  own.sa_flags |= SA_SIGINFO | SA_ONSTACK; // goroutines have small stacks
  sigaction(SIGFPE, &own, NULL);
}

#else

// Other processors do not trap.
void nrd_survive_divisions(void *handle) { (void)handle; }

#endif
