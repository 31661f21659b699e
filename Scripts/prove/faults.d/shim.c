// Scripts/prove/faults preloads this into clientctl: writes half of the bytes, and syncs without effect.
//
// FAULTS_PLACE  the folder of the affected files
// FAULTS_LOG    receives a line for each write of at least two bytes below it: its number, the call, the bytes
// FAULTS_AT     the number of the write that writes and returns only half of its bytes
// FAULTS_FULL   if set, every later write fails with ENOSPC
// FAULTS_NOSYNC if set, fsync, fdatasync, syncfs and sync_file_range return 0 without effect
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long number;
static atomic_int full;

static int is_below(int descriptor) {
    const char *place = getenv("FAULTS_PLACE");
    char link[64], path[PATH_MAX];
    if (!place) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return strncmp(path, place, strlen(place)) == 0;
}

static void note(long mine, const char *call, size_t asked) {
    const char *log = getenv("FAULTS_LOG");
    if (!log) return;
    int descriptor = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (descriptor < 0) return;
    char line[96];
    int length = snprintf(line, sizeof line, "%ld %s %zu\n", mine, call, asked);
    syscall(SYS_write, descriptor, line, (size_t)length);
    close(descriptor);
}

// Returns how many of `asked` bytes may be written, or -1 if the disk is full.
static ssize_t allowed(int descriptor, const char *call, size_t asked) {
    int before = errno;
    if (asked < 2 || !is_below(descriptor)) {
        errno = before;
        return (ssize_t)asked;
    }
    if (atomic_load(&full)) {
        errno = ENOSPC;
        return -1;
    }
    long mine = atomic_fetch_add(&number, 1) + 1;
    note(mine, call, asked);
    const char *at = getenv("FAULTS_AT");
    errno = before;
    if (!at || atol(at) != mine) return (ssize_t)asked;
    if (getenv("FAULTS_FULL")) atomic_store(&full, 1);
    return (ssize_t)(asked / 2);
}

ssize_t write(int descriptor, const void *bytes, size_t count) {
    ssize_t take = allowed(descriptor, "write", count);
    return take < 0 ? -1 : syscall(SYS_write, descriptor, bytes, (size_t)take);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off64_t offset) {
    ssize_t take = allowed(descriptor, "pwrite64", count);
    return take < 0 ? -1 : syscall(SYS_pwrite64, descriptor, bytes, (size_t)take, offset);
}

ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t offset) {
    return pwrite64(descriptor, bytes, count, offset);
}

// Writes half of a gathered write: its first piece, truncated if necessary.
ssize_t writev(int descriptor, const struct iovec *pieces, int count) {
    size_t asked = 0;
    for (int index = 0; index < count; index++) asked += pieces[index].iov_len;
    ssize_t take = allowed(descriptor, "writev", asked);
    if (take < 0) return -1;
    if ((size_t)take == asked) return syscall(SYS_writev, descriptor, pieces, count);
    size_t first = 0;
    while (pieces[first].iov_len == 0) first++;
    size_t length = pieces[first].iov_len < (size_t)take ? pieces[first].iov_len : (size_t)take;
    return syscall(SYS_write, descriptor, pieces[first].iov_base, length);
}

int fsync(int descriptor) { return getenv("FAULTS_NOSYNC") ? 0 : (int)syscall(SYS_fsync, descriptor); }
int fdatasync(int descriptor) { return getenv("FAULTS_NOSYNC") ? 0 : (int)syscall(SYS_fdatasync, descriptor); }
int syncfs(int descriptor) { return getenv("FAULTS_NOSYNC") ? 0 : (int)syscall(SYS_syncfs, descriptor); }

int sync_file_range(int descriptor, off64_t offset, off64_t count, unsigned int flags) {
    if (getenv("FAULTS_NOSYNC")) return 0;
    return (int)syscall(SYS_sync_file_range, descriptor, offset, count, flags);
}
