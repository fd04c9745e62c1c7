/* Shifts the clocks of a process: LD_PRELOAD this, and name in SHIFT_FILE a file with two numbers, the
 * seconds to add to CLOCK_REALTIME and to CLOCK_BOOTTIME. The file is read at each call, so a clock can
 * be made to jump while the process runs.
 *
 * The program asks the kernel's vDSO itself, so replacing the C library's functions would have no
 * effect. This hides the vDSO from it, and a seccomp filter turns the system calls that remain into
 * signals. x86-64 Linux only. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef PR_GET_AUXV
#define PR_GET_AUXV 0x41555856
#endif

static int shift_file = -1;
static char auxv[4096];
static long auxv_len;

unsigned long getauxval(unsigned long type) {
    static unsigned long (*real)(unsigned long);
    if (!real) real = dlsym(RTLD_NEXT, "getauxval");
    return type == AT_SYSINFO_EHDR ? 0 : real(type);
}

static void on_trap(int signal_number, siginfo_t *info, void *context) {
    (void)signal_number, (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (registers[REG_RAX] == SYS_prctl) {
        long len = auxv_len < registers[REG_RDX] ? auxv_len : registers[REG_RDX];
        memcpy((void *)registers[REG_RSI], auxv, len);
        registers[REG_RAX] = auxv_len;
        return;
    }
    char text[64] = {0}, *end = text;
    long realtime_s = 0, boottime_s = 0;
    if (shift_file >= 0 && pread(shift_file, text, sizeof text - 1, 0) > 0) {
        realtime_s = strtol(text, &end, 10);
        boottime_s = strtol(end, 0, 10);
    }
    long clock = registers[REG_RDI];
    struct timespec *time = (void *)registers[REG_RSI];
    /* The C library's own vDSO is still there, and is no system call. Not so for CLOCK_BOOTTIME on old
     * kernels: CLOCK_MONOTONIC stands in, which differs by the time that the machine has slept. */
    clock_gettime(clock == CLOCK_BOOTTIME ? CLOCK_MONOTONIC : clock, time);
    time->tv_sec += clock == CLOCK_REALTIME ? realtime_s : boottime_s;
    registers[REG_RAX] = 0;
}

__attribute__((constructor)) static void begin(void) {
    char *name = getenv("SHIFT_FILE");
    if (name) shift_file = open(name, O_RDONLY | O_CLOEXEC);
    int file = open("/proc/self/auxv", O_RDONLY | O_CLOEXEC);
    auxv_len = file < 0 ? 0 : read(file, auxv, sizeof auxv);
    if (file >= 0) close(file);
    unsigned long *entry = (unsigned long *)auxv;
    for (long i = 0; i + 1 < auxv_len / (long)sizeof *entry; i += 2)
        if (entry[i] == AT_SYSINFO_EHDR) entry[i] = AT_IGNORE;
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &action, 0);
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ, SYS_prctl, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ, SYS_clock_gettime, 0, 7),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ, CLOCK_REALTIME, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ, CLOCK_BOOTTIME, 0, 4),
        BPF_STMT(BPF_RET, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ, PR_GET_AUXV, 0, 1),
        BPF_STMT(BPF_RET, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) perror("seccomp");
}
