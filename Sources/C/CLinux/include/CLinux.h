// Linux calls that the Glibc module does not offer to Swift. Every function returns a value >= 0, or -errno.
#ifndef CLINUX_H
#define CLINUX_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/// openat2(2) with RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and RESOLVE_NO_MAGICLINKS; -EXDEV for any `..`.
/// Where the kernel or a sandbox refuses openat2, walks the components with O_NOFOLLOW instead.
int clinux_open_beneath(int directory, const char *path, int flags, mode_t mode);

/// The walk alone, so that the fallback can be tested on kernels that have openat2.
int clinux_open_walking(int directory, const char *path, int flags, mode_t mode);

/// renameat2(2) with RENAME_NOREPLACE. Where that is unknown: a look, then renameat(2), which is as good among those that hold the
/// same lock; over a folder with anything in it, it is refused by any kernel.
int clinux_rename_noreplace(int from_directory, const char *from, int to_directory, const char *to);
/// The same by the kernel alone: -EINVAL where the file system does not know the flag.
int clinux_rename_noreplace_strictly(int from_directory, const char *from, int to_directory, const char *to);

/// memfd_create(2): a file without a disk.
int clinux_memory_file(const char *name);

/// syncfs(2): everything dirty on the file system of `descriptor` reaches the disk; reports write-back errors (Linux 5.8).
int clinux_sync_file_system(int descriptor);

/// One directory entry at a time: fills `name` (at least 256 bytes) and `type` (DT_REG..., DT_UNKNOWN where the file system
/// does not say) and returns the name's length, 0 at the end.
int clinux_read_entry(void *stream, char *name, size_t capacity, unsigned char *type);
/// Opens a directory stream over its own duplicate of `directory`, rewound; NULL with *error set on failure.
void *clinux_open_stream(int directory, int *error);
void clinux_close_stream(void *stream);

/// Puts the process into the C.UTF-8 character set, which libarchive needs to read names; 0, or -1.
int clinux_use_utf8(void);

/// mallopt(3) with M_ARENA_MAX: how many heaps the threads of the process share; 1, or 0 where that cannot be set.
int clinux_limit_heaps(int count);

/// Lets a program that is started by these `posix_spawn_file_actions_t` close every descriptor from `first` up; 0, or -errno.
int clinux_close_from(void *actions, int first);

/// Rights of Landlock, as the kernel numbers them: headers may be older than the kernel.
enum {
    CLINUX_MAY_EXECUTE = 1 << 0,
    CLINUX_MAY_WRITE_FILE = 1 << 1,
    CLINUX_MAY_READ_FILE = 1 << 2,
    CLINUX_MAY_READ_FOLDER = 1 << 3,
    CLINUX_MAY_REMOVE_FOLDER = 1 << 4,
    CLINUX_MAY_REMOVE_FILE = 1 << 5,
    CLINUX_MAY_MAKE_FOLDER = 1 << 7,
    CLINUX_MAY_MAKE_FILE = 1 << 8,
    /// Every right that the first version knows, devices, sockets and links among them.
    CLINUX_MAY_FIRST = (1 << 13) - 1,
    /// From version 2 on: names move from one folder to another.
    CLINUX_MAY_MOVE = 1 << 13,
    /// From version 3 on.
    CLINUX_MAY_TRUNCATE = 1 << 14,
};

/// How much of Landlock the kernel has: its version, 1 or more.
int clinux_landlock_version(void);
/// A ruleset under which everything in `handled` is refused that no rule allows; its descriptor.
int clinux_landlock_ruleset(uint64_t handled);
/// Allows `rights` below the folder at `path`, or for the file there.
int clinux_landlock_allow(int ruleset, uint64_t rights, const char *path);
/// From now on `ruleset` holds for this thread and all that it starts, and none of them gains privileges.
int clinux_landlock_enforce(int ruleset);

#endif
