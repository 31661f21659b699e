"""Simulates power cuts with the place on an ext4 loop image, mounted without options that hide a missing sync."""

import ctypes
import fcntl
import os
import shutil
import struct
import subprocess

from judges import copy

OPTIONS = "loop,data=writeback,noauto_da_alloc"
EXT4_IOC_SHUTDOWN = 0x8004587D
LOG_FLUSH, NO_LOG_FLUSH = 1, 2
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000

# power    a copy of the image at that time, without the page cache
# journal  the file system is shut down after a flush of its journal
# dropped  the file system is shut down at once
# again    power, after a complete second run of the command
KINDS = ("power", "journal", "dropped", "again")


def own_mounts():
    """Creates a mount namespace for this process, so that its mounts and loop devices end with it."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    if library.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        raise OSError(ctypes.get_errno(), "mount")


class Disk:
    """A loop image that is mounted at the place."""

    def __init__(self, world):
        self.world = world
        self.image = world.work / "disk.img"
        self.cut_image = world.work / "cut.img"
        self.empty = world.work / "empty.img"
        self.mounted = False

    def refusal(self):
        """Returns why power cuts do not work on this machine; None if they do."""
        try:
            own_mounts()
            self.call("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,root_owner=0:0", self.empty, "48M")
            self.load(self.empty)
            self.unmount()
        except (OSError, subprocess.CalledProcessError) as error:
            text = getattr(error, "stderr", None) or str(error)
            return text.strip().splitlines()[-1]
        return None

    def call(self, *command):
        path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
        subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True,
                       env=os.environ | {"PATH": path})

    def mount(self, image):
        self.call("mount", "-o", OPTIONS, image, self.world.place)
        self.mounted = True

    def unmount(self):
        if self.mounted:
            self.call("umount", self.world.place)
            self.mounted = False

    def save(self, saved, template):
        """Creates an image with the content of `saved`."""
        self.load(self.empty)
        shutil.rmtree(self.world.place / "lost+found", ignore_errors=True)
        copy(saved, self.world.place)
        self.unmount()
        self.copy_image(self.image, template)

    def load(self, template):
        self.unmount()
        self.copy_image(template, self.image)
        self.mount(self.image)

    def copy_image(self, source, target):
        target.unlink(missing_ok=True)
        self.call("cp", "--sparse=always", source, target)

    def cut(self, kind):
        """Cuts the power and mounts the remaining state."""
        if kind in ("power", "again"):
            self.copy_image(self.image, self.cut_image)
            self.unmount()
            self.mount(self.cut_image)
            return
        folder = os.open(self.world.place, os.O_RDONLY)
        try:
            flags = LOG_FLUSH if kind == "journal" else NO_LOG_FLUSH
            fcntl.ioctl(folder, EXT4_IOC_SHUTDOWN, struct.pack("I", flags))
        finally:
            os.close(folder)
        self.unmount()
        self.mount(self.image)
