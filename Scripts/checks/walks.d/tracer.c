// Runs a program and writes the functions that it ran, in the order of their first calls.
//
//   tracer ADDRESSES OUTPUT PROGRAM [ARGUMENT...]
//
// ADDRESSES has one line for each function: its address in the program file, in hexadecimal. OUTPUT gets the addresses of those that ran.
// Each function has a breakpoint until its first call. Children are traced until they execute another program.
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct { uint64_t address; uint8_t byte; int ran; } Breakpoint;

static Breakpoint *breakpoints;
static size_t count;
static uint64_t base;
static FILE *output;

static void fail(const char *what) { fprintf(stderr, "tracer: %s: %s\n", what, strerror(errno)); exit(1); }

static int byAddress(const void *a, const void *b) {
    uint64_t x = ((const Breakpoint *)a)->address, y = ((const Breakpoint *)b)->address;
    return x < y ? -1 : x > y;
}

static void readAddresses(const char *path) {
    FILE *file = fopen(path, "r");
    if (!file) fail(path);
    size_t room = 1 << 16;
    if (!(breakpoints = malloc(room * sizeof *breakpoints))) fail("memory");
    for (unsigned long long address; fscanf(file, "%llx", &address) == 1;) {
        if (count == room && !(breakpoints = realloc(breakpoints, (room *= 2) * sizeof *breakpoints))) fail("memory");
        breakpoints[count++] = (Breakpoint){.address = address};
    }
    fclose(file);
    qsort(breakpoints, count, sizeof *breakpoints, byAddress);
}

static int openMemory(pid_t process) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", process);
    return open(path, O_RDWR | O_CLOEXEC);
}

// The program's load address: the entry that the kernel reports, minus the one in the file.
static uint64_t loadAddress(pid_t process, const char *program) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/auxv", process);
    Elf64_Ehdr header;
    FILE *file = fopen(program, "r");
    if (!file || fread(&header, sizeof header, 1, file) != 1) fail(program);
    fclose(file);
    if (!(file = fopen(path, "r"))) fail(path);
    for (Elf64_auxv_t entry; fread(&entry, sizeof entry, 1, file) == 1;)
        if (entry.a_type == AT_ENTRY) { fclose(file); return entry.a_un.a_val - header.e_entry; }
    errno = ENOENT;
    fail("AT_ENTRY");
    return 0;
}

static void setBreakpoints(pid_t process) {
    int memory = openMemory(process);
    if (memory < 0) fail("memory of the program");
    const uint8_t trap = 0xCC;
    for (size_t i = 0; i < count; i++) {
        off_t at = (off_t)(base + breakpoints[i].address);
        if (pread(memory, &breakpoints[i].byte, 1, at) != 1 || pwrite(memory, &trap, 1, at) != 1) fail("breakpoint");
    }
    close(memory);
}

// Returns whether the task stopped at a breakpoint; then it can go on.
static int passBreakpoint(pid_t task) {
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, task, 0, &registers)) return 0;
    Breakpoint key = {.address = registers.rip - 1 - base};
    Breakpoint *found = bsearch(&key, breakpoints, count, sizeof *breakpoints, byAddress);
    if (!found) return 0;
    // A forked child has its own copy of the memory, and another thread may have reached the same breakpoint before.
    int memory = openMemory(task);
    if (memory < 0 || pwrite(memory, &found->byte, 1, (off_t)(registers.rip - 1)) != 1) fail("breakpoint");
    close(memory);
    registers.rip--;
    if (ptrace(PTRACE_SETREGS, task, 0, &registers)) fail("registers");
    if (!found->ran) fprintf(output, "%llx\n", (unsigned long long)found->address);
    found->ran = 1;
    return 1;
}

int main(int argc, char **argv) {
    if (argc < 4) { fprintf(stderr, "usage: tracer ADDRESSES OUTPUT PROGRAM [ARGUMENT...]\n"); return 64; }
    readAddresses(argv[1]);
    if (!(output = fopen(argv[2], "w"))) fail(argv[2]);
    setvbuf(output, NULL, _IOLBF, 0);
    pid_t program = fork();
    if (program < 0) fail("fork");
    if (program == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execv(argv[3], argv + 3);
        fail(argv[3]);
    }
    int status;
    if (waitpid(program, &status, 0) != program || !WIFSTOPPED(status)) fail(argv[3]);
    if (ptrace(PTRACE_SETOPTIONS, program, 0,
               PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL)) fail("ptrace");
    base = loadAddress(program, argv[3]);
    setBreakpoints(program);
    // An interrupt is for the program, which then ends.
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    ptrace(PTRACE_CONT, program, 0, 0);
    for (pid_t task; (task = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR;) {
        if (task <= 0) continue;
        if (task == program && WIFEXITED(status)) return WEXITSTATUS(status);
        if (task == program && WIFSIGNALED(status)) return 128 + WTERMSIG(status);
        if (!WIFSTOPPED(status)) continue;
        int event = status >> 16, signal = WSTOPSIG(status);
        if (event == PTRACE_EVENT_EXEC) { ptrace(PTRACE_DETACH, task, 0, 0); continue; }
        // A new task begins with SIGSTOP.
        if (event || signal == SIGSTOP || (signal == SIGTRAP && passBreakpoint(task))) signal = 0;
        ptrace(PTRACE_CONT, task, 0, signal);
    }
    return 1;
}
