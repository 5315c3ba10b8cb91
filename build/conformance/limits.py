"""Little memory and small disks."""

import contextlib
import itertools
import os
import pathlib
import subprocess

from harness import until

MIB = 1 << 20
numbers = itertools.count()


class MemoryGroup:
    """A control group of processes that together have a limit of memory."""

    # Version 1 and version 2: where groups are, and the files of the limit, of swap and of the most that was used.
    KINDS = (
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max_usage_in_bytes"),
        ("/sys/fs/cgroup", "memory.max", "memory.swap.max", "memory.peak"),
    )

    def __init__(self, folder, peak):
        self.folder, self.procs, self._peak = folder, folder / "cgroup.procs", peak

    def peak(self):
        """The most memory that was used, in bytes."""
        return int((self.folder / self._peak).read_text())


@contextlib.contextmanager
def memory_group(limit):
    """A control group with a limit in bytes, None where it cannot be made. Its processes must end before it does."""
    for root, name, swap, peak in MemoryGroup.KINDS:
        folder = pathlib.Path(root) / f"nereid-{os.getpid()}-{next(numbers)}"
        try:
            folder.mkdir()
            (folder / name).write_text(str(limit))
        except OSError:
            with contextlib.suppress(OSError):
                folder.rmdir()
            continue
        with contextlib.suppress(OSError):
            (folder / swap).write_text(str(limit if "memsw" in swap else 0))
        group = MemoryGroup(folder, peak)
        try:
            yield group
        finally:
            until(lambda: not group.procs.read_text(), 60, f"{folder} has processes")
            folder.rmdir()
        return
    yield None


@contextlib.contextmanager
def small_disk(folder, size):
    """Mounts a file system of that many bytes, which only root may do. It is unmounted also if this process is killed:
    then a shell reads the end of its input, and does it."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "none", folder], check=True, timeout=60)
    with subprocess.Popen(["sh", "-c", 'cat >/dev/null; umount -l "$1"', "sh", folder], stdin=subprocess.PIPE,
                          start_new_session=True) as shell:
        try:
            yield folder
        finally:
            shell.stdin.close()
            assert shell.wait(60) == 0, f"{folder} is not unmounted"


def fill(folder):
    """Fills a disk to the last byte and returns the file that does it."""
    path = folder / ".fill"
    with open(path, "wb", buffering=0) as f:
        for size in 1 << 20, 1 << 12, 1:
            with contextlib.suppress(OSError):
                while f.write(bytes(size)):
                    pass
    return path
