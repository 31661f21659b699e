"""Disables Landlock for a program and its children: the counters of lines and writes are files that a confined clientctl may not
write."""

import ctypes
import errno
import struct

LANDLOCK_CREATE_RULESET = 444  # on every architecture
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38


def unconfined():
    """Installs a filter of four instructions; for `preexec_fn`."""
    program = b"".join(struct.pack("HBBI", *one) for one in (
        (0x20, 0, 0, 0),                               # load the number of the system call
        (0x15, 0, 1, LANDLOCK_CREATE_RULESET),         # skip one instruction for another call
        (0x06, 0, 0, 0x00050000 | errno.ENOSYS),       # return an error
        (0x06, 0, 0, 0x7FFF0000)))                     # allow
    code = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]

    libc = ctypes.CDLL(None, use_errno=True)
    filter = Program(4, ctypes.addressof(code))
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, 2, ctypes.byref(filter), 0, 0):
        raise OSError(ctypes.get_errno(), "the filter of system calls was not installed")
