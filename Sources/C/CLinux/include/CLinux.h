// Linux system calls that the Glibc module does not import. Each function returns a value >= 0, or -errno.
#ifndef CLINUX_H
#define CLINUX_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/// openat2(2) with RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and RESOLVE_NO_MAGICLINKS; -EXDEV for any `..`.
/// If the kernel or a sandbox refuses openat2, it opens the components one by one with O_NOFOLLOW.
int clinux_open_beneath(int directory, const char *path, int flags, mode_t mode);

/// The fallback alone, for tests on kernels that support openat2.
int clinux_open_walking(int directory, const char *path, int flags, mode_t mode);

/// renameat2(2) with RENAME_NOREPLACE. Without support for the flag it checks the target and calls renameat(2), which is safe among
/// processes that hold the same lock. No kernel replaces a folder that is not empty.
int clinux_rename_noreplace(int from_directory, const char *from, int to_directory, const char *to);
/// The same without the fallback: -EINVAL if the file system does not support the flag.
int clinux_rename_noreplace_strictly(int from_directory, const char *from, int to_directory, const char *to);

/// The Debian packages of the libraries that are inside the program, as "name version" lines; empty if it uses the system's.
const char *clinux_packages_inside(void);

/// memfd_create(2): a file in memory.
int clinux_memory_file(const char *name);

/// pidfd_open(2): a descriptor that is readable when the process ends.
int clinux_open_process(pid_t process);

/// syncfs(2): writes the file system of `descriptor` to the disk. Reports write-back errors from Linux 5.8 on.
int clinux_sync_file_system(int descriptor);

/// Reads the next directory entry into `name` (at least 256 bytes) and `type` (DT_REG and others, DT_UNKNOWN if the file system
/// does not report it). Returns the length of the name, or 0 at the end.
int clinux_read_entry(void *stream, char *name, size_t capacity, unsigned char *type);
/// Opens a directory stream at its start on a duplicate of `directory`. Returns NULL and sets *error on failure.
void *clinux_open_stream(int directory, int *error);
void clinux_close_stream(void *stream);

/// Returns the number of arguments that the program was started with, its name included.
int clinux_argument_count(void);
/// Returns the argument at `index`, where 0 is the name of the program, or NULL if there is none.
const char *clinux_argument(int index);

/// Sets the character set of the process to C.UTF-8, which libarchive needs for names. Returns 0, or -1.
int clinux_use_utf8(void);

/// mallopt(3) with M_ARENA_MAX: limits the heaps of the process. Returns 1, or 0 on failure.
int clinux_limit_heaps(int count);

/// Makes a program that is started with these file actions close every descriptor from `first` on. Returns 0, or -errno.
int clinux_close_from(void *actions, int first);

/// The Landlock rights in the kernel's numbers, because the headers can be older than the kernel.
enum {
    CLINUX_MAY_EXECUTE = 1 << 0,
    CLINUX_MAY_WRITE_FILE = 1 << 1,
    CLINUX_MAY_READ_FILE = 1 << 2,
    CLINUX_MAY_READ_FOLDER = 1 << 3,
    CLINUX_MAY_REMOVE_FOLDER = 1 << 4,
    CLINUX_MAY_REMOVE_FILE = 1 << 5,
    CLINUX_MAY_MAKE_FOLDER = 1 << 7,
    CLINUX_MAY_MAKE_FILE = 1 << 8,
    /// All rights of version 1, including those for devices, sockets and links.
    CLINUX_MAY_FIRST = (1 << 13) - 1,
    /// Renames between folders, from version 2 on.
    CLINUX_MAY_MOVE = 1 << 13,
    /// Truncation, from version 3 on.
    CLINUX_MAY_TRUNCATE = 1 << 14,
};

/// Returns the kernel's version of Landlock, 1 or more.
int clinux_landlock_version(void);
/// Creates a ruleset that refuses the rights in `handled` unless a rule allows them. Returns its descriptor.
int clinux_landlock_ruleset(uint64_t handled);
/// Allows `rights` below the folder at `path`, or for the file there.
int clinux_landlock_allow(int ruleset, uint64_t rights, const char *path);
/// Applies `ruleset` to this thread and all threads and processes that it starts afterwards. None of them can gain privileges.
int clinux_landlock_enforce(int ruleset);

/// Returns NetworkManager's property `Metered` (0 unknown, 1 yes, 2 no, 3 probably yes, 4 probably no), or a negative error if
/// the system bus, NetworkManager or libsystemd is missing.
int clinux_network_manager_metered(void);

#endif
