/* clock: runs a program whose clock another process sets.

   usage: clock FILE PROGRAM ARGUMENT...

   The first bytes of FILE are a number of seconds, as text: it is added to the time that the program and all that it
   starts read. The program is traced. Its calls for the time go to the kernel, because the page of the kernel that
   answers them in the process (the vDSO) is hidden, and a filter stops those that ask for the time of day. Only for
   x86-64 Linux. */

#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int file;

static void must(int ok, const char *what) {
	if (!ok) {
		perror(what);
		exit(125);
	}
}

static time_t offset(void) {
	char text[32] = "";
	must(pread(file, text, sizeof text - 1, 0) >= 0, "the file with the offset");
	return strtoll(text, NULL, 10);
}

/* hide_vdso removes the vDSO from what the kernel tells a new program. */
static void hide_vdso(pid_t pid, unsigned long sp) {
	unsigned long at = sp + 8, word;
	for (int ends = 0; ends < 2; at += 8) /* arguments, then variables */
		if (ptrace(PTRACE_PEEKDATA, pid, at, 0) == 0)
			ends++;
	while ((word = ptrace(PTRACE_PEEKDATA, pid, at, 0)) != AT_NULL) {
		if (word == AT_SYSINFO_EHDR)
			must(ptrace(PTRACE_POKEDATA, pid, at, AT_IGNORE) == 0, "hide the vDSO");
		at += 16;
	}
}

/* answer does what a stopped call for the time asks for, and leaves the call out. */
static void answer(pid_t pid) {
	struct user_regs_struct r;
	if (ptrace(PTRACE_GETREGS, pid, 0, &r) != 0)
		return; /* it was killed */
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	now.tv_sec += offset();
	struct timeval tv = {now.tv_sec, now.tv_nsec / 1000};
	struct iovec from = {&now, sizeof now}, to = {(void *)r.rsi, sizeof now};
	if (r.orig_rax != SYS_clock_gettime) {
		from = (struct iovec){&tv, sizeof tv};
		to = (struct iovec){(void *)r.rdi, sizeof tv};
	}
	r.rax = 0;
	if (r.orig_rax == SYS_time) {
		r.rax = now.tv_sec;
		from = (struct iovec){&now.tv_sec, sizeof now.tv_sec};
	}
	if (to.iov_base != NULL) {
		to.iov_len = from.iov_len;
		if (process_vm_writev(pid, &from, 1, &to, 1, 0) < 0)
			r.rax = -errno;
	}
	r.orig_rax = -1;
	ptrace(PTRACE_SETREGS, pid, 0, &r);
}

static void run(char **argv) {
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_gettimeofday, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_time, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CLOCK_REALTIME, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
	must(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0, "ptrace");
	raise(SIGSTOP);
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
	must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "the filter of system calls");
	execvp(*argv, argv);
	must(0, *argv);
}

static pid_t child;

static void pass_on(int sig) { kill(child, sig); }

int main(int argc, char **argv) {
	if (argc < 3) {
		fputs("usage: clock FILE PROGRAM ARGUMENT...\n", stderr);
		return 125;
	}
	must((file = open(argv[1], O_RDONLY)) >= 0, argv[1]);
	must((child = fork()) >= 0, "fork");
	if (child == 0)
		run(argv + 2);
	int status;
	must(waitpid(child, &status, 0) == child, "wait");
	must(ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESECCOMP | PTRACE_O_TRACEEXEC | PTRACE_O_TRACECLONE |
		PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_EXITKILL) == 0, "ptrace");
	ptrace(PTRACE_CONT, child, 0, 0);
	signal(SIGTERM, pass_on);
	signal(SIGINT, pass_on);
	for (;;) {
		pid_t pid = waitpid(-1, &status, __WALL);
		if (pid < 0) {
			must(errno == EINTR, "wait");
			continue;
		}
		if (pid == child && WIFEXITED(status))
			return WEXITSTATUS(status);
		if (pid == child && WIFSIGNALED(status))
			return 128 + WTERMSIG(status);
		if (!WIFSTOPPED(status))
			continue;
		int sig = WSTOPSIG(status), event = status >> 16;
		if (event == PTRACE_EVENT_SECCOMP)
			answer(pid);
		if (event == PTRACE_EVENT_EXEC) {
			struct user_regs_struct r;
			must(ptrace(PTRACE_GETREGS, pid, 0, &r) == 0, "registers");
			hide_vdso(pid, r.rsp);
		}
		/* A new thread begins with SIGSTOP, which is not for it. */
		ptrace(PTRACE_CONT, pid, 0, event != 0 || sig == SIGTRAP || sig == SIGSTOP ? 0 : sig);
	}
}
