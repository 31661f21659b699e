#define _GNU_SOURCE
#include "CLinux.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <locale.h>
#include <malloc.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int argument_count;
static char **arguments;

// The C library calls this before main, with what the kernel passed to the program. It needs neither /proc nor an environment that
// no other constructor has moved.
__attribute__((constructor)) static void keep_arguments(int count, char **values) {
    argument_count = count;
    arguments = values;
}

int clinux_argument_count(void) { return argument_count; }

const char *clinux_argument(int index) { return index < 0 || index >= argument_count ? NULL : arguments[index]; }

// Scripts/release --portable links an object that defines it.
extern const char clinux_packages[] __attribute__((weak));

const char *clinux_packages_inside(void) { return clinux_packages ? clinux_packages : ""; }

static int answer(long result) { return result < 0 ? -errno : (int)result; }

int clinux_open_walking(int directory, const char *path, int flags, mode_t mode) {
    char component[256];
    int at = directory;
    for (;;) {
        size_t length = strcspn(path, "/");
        if (length == 0 || length > 255) {
            if (at != directory) close(at);
            return length == 0 ? -EINVAL : -ENAMETOOLONG;
        }
        memcpy(component, path, length);
        component[length] = 0;
        if (strcmp(component, "..") == 0) {
            if (at != directory) close(at);
            return -EXDEV;
        }
        int last = path[length] == 0;
        int next = last ? openat(at, component, flags | O_NOFOLLOW | O_CLOEXEC, mode)
                        : openat(at, component, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int error = errno;
        if (at != directory) close(at);
        if (next < 0) return -error;
        if (last) return next;
        at = next;
        path += length + 1;
    }
}

// RESOLVE_BENEATH allows `..` inside the directory; this package does not.
static int has_parent_component(const char *path) {
    for (;;) {
        size_t length = strcspn(path, "/");
        if (length == 2 && path[0] == '.' && path[1] == '.') return 1;
        if (path[length] == 0) return 0;
        path += length + 1;
    }
}

int clinux_open_beneath(int directory, const char *path, int flags, mode_t mode) {
    if (has_parent_component(path)) return -EXDEV;
    struct open_how how;
    memset(&how, 0, sizeof how);
    how.flags = (uint64_t)(flags | O_NOFOLLOW | O_CLOEXEC);
    how.mode = (flags & O_CREAT) ? mode : 0;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    for (int attempt = 0; attempt < 8; attempt++) {
        long result = syscall(SYS_openat2, directory, path, &how, sizeof how);
        if (result >= 0) return (int)result;
        if (errno == ENOSYS || errno == EPERM) return clinux_open_walking(directory, path, flags, mode);
        // EAGAIN: another process renamed a directory during the lookup, which has to be repeated.
        if (errno != EAGAIN && errno != EINTR) return -errno;
    }
    return -EAGAIN;
}

// Older versions of musl do not have renameat2 and this flag.
static long rename_new(int from_directory, const char *from, int to_directory, const char *to) {
#ifndef RENAME_NOREPLACE
    enum { RENAME_NOREPLACE = 1 };
#endif
    return syscall(SYS_renameat2, from_directory, from, to_directory, to, RENAME_NOREPLACE);
}

int clinux_rename_noreplace(int from_directory, const char *from, int to_directory, const char *to) {
    if (rename_new(from_directory, from, to_directory, to) == 0) return 0;
    // The file system (FUSE, NFS, 9p) or a system call filter does not support the flag.
    if (errno != EINVAL && errno != ENOSYS && errno != EPERM) return -errno;
    struct stat status;
    if (fstatat(to_directory, to, &status, AT_SYMLINK_NOFOLLOW) == 0) return -EEXIST;
    if (errno != ENOENT) return -errno;
    return answer(renameat(from_directory, from, to_directory, to));
}

int clinux_rename_noreplace_strictly(int from_directory, const char *from, int to_directory, const char *to) {
    return answer(rename_new(from_directory, from, to_directory, to));
}

int clinux_sync_file_system(int descriptor) { return answer(syncfs(descriptor)); }

void *clinux_open_stream(int directory, int *error) {
    int own = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (own < 0) {
        *error = errno;
        return NULL;
    }
    DIR *stream = fdopendir(own);
    if (!stream) {
        *error = errno;
        close(own);
    }
    return stream;
}

int clinux_read_entry(void *stream, char *name, size_t capacity, unsigned char *type) {
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir((DIR *)stream);
        if (!entry) return errno ? -errno : 0;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        size_t length = strlen(entry->d_name);
        if (length >= capacity) return -ENAMETOOLONG;
        memcpy(name, entry->d_name, length + 1);
        *type = entry->d_type;
        return (int)length;
    }
}

void clinux_close_stream(void *stream) { closedir((DIR *)stream); }

int clinux_use_utf8(void) {
    return setlocale(LC_CTYPE, "C.UTF-8") || setlocale(LC_CTYPE, "en_US.UTF-8") ? 0 : -1;
}

int clinux_limit_heaps(int count) {
#ifdef __GLIBC__
    return mallopt(M_ARENA_MAX, count);
#else
    // musl has one heap for all threads.
    return 1;
#endif
}

int clinux_close_from(void *actions, int first) {
#ifdef __GLIBC__
    return -posix_spawn_file_actions_addclosefrom_np(actions, first);
#else
    // musl does not have this function and assumes that most descriptors are closed on exec.
    int error = 0;
    for (int descriptor = first; descriptor < 1024 && !error; descriptor++)
        error = posix_spawn_file_actions_addclose(actions, descriptor);
    return -error;
#endif
}

// This number is the same on every architecture.
enum { OPEN_PROCESS = 434 };

int clinux_open_process(pid_t process) { return answer(syscall(OPEN_PROCESS, process, 0u)); }

int clinux_memory_file(const char *name) { return answer(memfd_create(name, MFD_CLOEXEC)); }

// These numbers are the same on every architecture.
enum { LANDLOCK_CREATE = 444, LANDLOCK_ADD = 445, LANDLOCK_RESTRICT = 446 };

int clinux_landlock_version(void) { return answer(syscall(LANDLOCK_CREATE, NULL, 0, 1u)); }

int clinux_landlock_ruleset(uint64_t handled) {
    // The first member of the kernel's structure. The kernel accepts it alone.
    return answer(syscall(LANDLOCK_CREATE, &handled, sizeof handled, 0u));
}

int clinux_landlock_allow(int ruleset, uint64_t rights, const char *path) {
    int place = open(path, O_PATH | O_CLOEXEC);
    if (place < 0) return -errno;
    struct {
        uint64_t rights;
        int32_t beneath;
    } __attribute__((packed)) rule = {rights, place};
    int result = answer(syscall(LANDLOCK_ADD, ruleset, 1, &rule, 0u));
    close(place);
    return result;
}

int clinux_landlock_enforce(int ruleset) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return -errno;
    return answer(syscall(LANDLOCK_RESTRICT, ruleset, 0u));
}

// The functions of libsystemd in use, which is loaded only for this.
typedef int (*bus_open)(void **bus);
typedef int (*bus_limit)(void *bus, uint64_t microseconds);
typedef int (*bus_get)(void *bus, const char *destination, const char *path, const char *interface, const char *member,
                       void *error, char type, void *value);
typedef void *(*bus_close)(void *bus);

int clinux_network_manager_metered(void) {
    void *library = dlopen("libsystemd.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library) return -ENOENT;
    bus_open open_system = (bus_open)dlsym(library, "sd_bus_open_system");
    bus_limit set_timeout = (bus_limit)dlsym(library, "sd_bus_set_method_call_timeout");
    bus_get get = (bus_get)dlsym(library, "sd_bus_get_property_trivial");
    bus_close close_bus = (bus_close)dlsym(library, "sd_bus_flush_close_unref");
    if (!open_system || !get || !close_bus) return -ENOSYS;
    void *bus = NULL;
    int result = open_system(&bus);
    if (result < 0) return result;
    if (set_timeout) set_timeout(bus, 2000000);
    uint32_t metered = 0;
    result = get(bus, "org.freedesktop.NetworkManager", "/org/freedesktop/NetworkManager",
                 "org.freedesktop.NetworkManager", "Metered", NULL, 'u', &metered);
    close_bus(bus);
    return result < 0 ? result : (int)metered;
}
