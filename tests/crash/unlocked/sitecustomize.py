"""Kernel locks that reach no other command: every process of a command has a kernel of its own."""

import fcntl
import os
import pathlib

_read_text = pathlib.Path.read_text


def read_text(self, *arguments, **more):
    """The text of a file, but another identity of the kernel."""
    if str(self) == "/proc/sys/kernel/random/boot_id" and "CRASH_KERNEL" in os.environ:
        return os.environ["CRASH_KERNEL"]
    return _read_text(self, *arguments, **more)


pathlib.Path.read_text = read_text
fcntl.flock = lambda *_: None
