"""Clients' memory in which inputs lie: engine/worker/PROTOCOL.md, "Regions".

An input is a view of a private mapping: the model reads what the client wrote, and what the model writes is its own. Nobody
else has the mapping as long as the input lives. When the request is answered the memory is the client's again: an input that
the model still has by then gets pages of its own first. A mapping with pages of its own is not used again.
"""

import mmap
import os
import resource
import socket
import struct
import threading
from sys import getrefcount
from weakref import getweakrefcount

import numpy as np

import _nereid_arena as arena

_GIVEN = struct.Struct("<QQQ")
_OFFSET_BITS = 40
_OFFSET = (1 << _OFFSET_BITS) - 1
_PAGE = mmap.PAGESIZE
_WHOLE = 64 << 20  # regions of up to this size are mapped as a whole
_MOST = 1 << 30  # how many bytes are mapped at once (and no more than an eighth of the process's limit of memory), and in how
# many mappings; further inputs are copied
_MOST_MAPPINGS = 128
_OWN_MOST = 8  # how many times a model may write into inputs, or keep them, before they are copied by the server again
_MADV_POPULATE_WRITE = 23
_PRIVATE = mmap.MAP_PRIVATE | 0x4000  # MAP_NORESERVE
_BOTH = mmap.PROT_READ | mmap.PROT_WRITE


class Missing(Exception):
    """Memory that is not there."""


class Input(arena.Input):
    """The bytes of an input in a client's memory."""

    __slots__ = ("lease",)

    def __del__(self):
        try:
            lease = self.lease
        except AttributeError:
            return  # a view of one that numpy has made
        lease.ended()


class _Mapping:
    """A private mapping of a part of an object. faults: how many page faults this process had when the mapping was last known
    to have no page of its own."""

    __slots__ = ("map", "size", "base", "faults", "sizes")

    def __init__(self, fd, start, size, sizes):
        self.map = mmap.mmap(fd, size, flags=_PRIVATE, prot=_BOTH, offset=start)
        self.size, self.faults, self.sizes = size, -1, sizes
        self.base = np.frombuffer(self.map, np.uint8).__array_interface__["data"][0]
        sizes[0] += size
        sizes[1] += 1

    def __del__(self):
        if hasattr(self, "base"):
            self.sizes[0] -= self.size
            self.sizes[1] -= 1


class _Region:
    """fd: the object; base, size: where the region lies in it; spots: (offset, length) -> spot of inputs that were there."""

    __slots__ = ("fd", "base", "size", "free", "spots")

    def __init__(self, fd, base, size):
        self.fd, self.base, self.size, self.free, self.spots = fd, base, size, {}, {}

    def spot(self, offset, length):
        """(start, size, free, at, first, pages) for an input: what is to be mapped for it, which is the region or its own pages;
        the mappings of that which nobody uses; where it is in one, and the pages that it touches."""
        start, end = self.base & -_PAGE, self.base + self.size
        if end - start > _WHOLE:
            start, end = offset & -_PAGE, offset + length
        if offset < start or offset + length > end:
            raise Missing("an input lies outside of its region")
        if len(self.free) >= 64:
            self.close()
        free = self.free.setdefault((start, end), [])
        first = (offset - start) & -_PAGE
        spot = self.spots[offset, length] = start, end - start, free, offset - start, first, offset - start + length - first
        if len(self.spots) > 1024:
            self.spots = {}
        return spot

    def close(self):
        """Gives back the mappings that nobody uses, and will use."""
        for free in self.free.values():
            free.clear()
        self.free, self.spots = {}, {}


class _Lease:
    """A mapping in use by one input. given: where the input is in what is kept until the answer is sent, -1: it is not; own: the
    pages are this process's."""

    __slots__ = ("clients", "region", "spot", "mapping", "where", "length", "given", "own")

    def __init__(self, clients, region, spot, mapping, where, length):
        self.clients, self.region, self.spot, self.mapping = clients, region, spot, mapping
        self.where, self.length, self.given, self.own = where, length, -1, False

    def clean(self, mapping):
        """Whether the input, which lies in the mapping, is what the client wrote."""
        faults = _faults()
        if faults != mapping.faults:
            if self.clients.pages.own(mapping.base + self.spot[4], self.spot[5]):
                return False
            mapping.faults = faults
        return True

    def make_own(self):
        """Has the input in pages of this process's own. False: it is gone."""
        self.own = True  # before the mapping is looked at: another thread may be in ended, which sees one or the other
        mapping = self.mapping
        if mapping is None:
            return False
        _, _, _, _, first, length = self.spot
        try:
            mapping.map.madvise(_MADV_POPULATE_WRITE, first, length)
        except OSError:  # an older kernel
            each = np.ndarray((-(-length // _PAGE),), np.uint8, mapping.map, first, (_PAGE,))
            each |= 0
        return True

    def ended(self):
        """The input is gone."""
        mapping, self.mapping = self.mapping, None
        if self.own:
            return
        if self.given < 0 and not self.clean(mapping):
            self.clients.count()
        elif self.region.fd >= 0:
            self.spot[2].append(mapping)


def _faults():
    # The kernel counts every page that a write makes private, as a major fault where the client's page was swapped out.
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used[6] + used[7]


def _references(kept, i):
    array = kept[i]
    return getrefcount(array)


# What _references gives for an array that only the list has.
_ONE = _references([np.zeros(1, np.uint8)], 0)


def _unshared(kept, lease):
    """Whether the list has the array on an input that was given for it, and nothing else has that, nor the input."""
    array = kept[lease.given]
    while getrefcount(array) <= _ONE:
        if type(array) is Input:
            return array.lease is lease
        array = array.base
        if not isinstance(array, np.ndarray):
            return False
    return False


class _Pages:
    """Knows which pages of this process are its own. Source: the kernel's Documentation/admin-guide/mm/pagemap.rst."""

    def __init__(self):
        self._fd = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)

    def own(self, address, length):
        """Whether one of the pages is."""
        first, last = address // _PAGE, -(-(address + length) // _PAGE)
        entries = np.frombuffer(os.pread(self._fd, (last - first) * 8, first * 8), np.uint64)
        if len(entries) != last - first:
            return True
        # Bit 63: present, 62: swapped, 61: a file's or shared.
        return bool(np.any(((entries >> np.uint64(62)) != 0) & ((entries >> np.uint64(61)) & np.uint64(1) == 0)))


def open_regions(fd):
    """What takes inputs from clients' memory, None where this kernel does not tell what is written; fd: the socket on which
    descriptors come."""
    try:
        pages = _Pages()
        if _works(pages):
            return Regions(socket.socket(fileno=fd), pages)
    except (OSError, AttributeError):
        pass
    os.close(fd)
    return None


def _works(pages):
    """Whether a write into a private mapping is seen, by the count of faults and by the pages."""
    fd = os.memfd_create("nereid-try")
    try:
        os.ftruncate(fd, 2 * _PAGE)
        os.pwrite(fd, b"\1" * (2 * _PAGE), 0)
        mapping = _Mapping(fd, 0, 2 * _PAGE, [0, 0])
        memory = np.frombuffer(mapping.map, np.uint8)
        if memory.sum() != 2 * _PAGE or pages.own(mapping.base, 2 * _PAGE):
            return False
        before = _faults()
        memory[_PAGE] = 2
        return (
            _faults() > before
            and pages.own(mapping.base, 2 * _PAGE)
            and not pages.own(mapping.base, _PAGE)
            and os.pread(fd, 1, _PAGE) == b"\1"
        )
    finally:
        os.close(fd)


class Regions:
    """The clients' regions that the server has given this process. Inputs are taken by one thread; all else is safe for use by
    several. enough() is called when the model makes so much of what it gets its own that inputs are better copied."""

    def __init__(self, sock, pages):
        self._socket, self.pages, self.enough = sock, pages, None
        self._known = {}  # number -> region
        self.leased = {}  # ticket -> leases of its inputs
        self._sizes, self._owned = [0, 0], 0
        self._learning = threading.Lock()

    def take(self, ticket, where, length):
        """The bytes of an input."""
        region = self._known.get(where >> _OFFSET_BITS) or self._learn(where >> _OFFSET_BITS)
        offset = where & _OFFSET
        spot = region.spots.get((offset, length)) or region.spot(offset, length)
        try:
            mapping = spot[2].pop()
        except IndexError:
            mapping = self._map(region, spot)
            if mapping is None:
                return _copy(region, offset, length)
        memory = np.ndarray.__new__(Input, (length,), np.uint8, mapping.map, spot[3])
        memory.lease = lease = _Lease(self, region, spot, mapping, where, length)
        leases = self.leased.get(ticket)
        if leases is None:
            self.leased[ticket] = [lease]
        else:
            leases.append(lease)
        return memory

    def _map(self, region, spot):
        limit = resource.getrlimit(resource.RLIMIT_DATA)[0]  # the kernel counts what is mapped so as the model's memory
        most = _MOST if limit == resource.RLIM_INFINITY else min(_MOST, limit // 8)
        if self._sizes[0] + spot[1] > most or self._sizes[1] >= _MOST_MAPPINGS:
            return None
        try:
            return _Mapping(region.fd, spot[0], spot[1], self._sizes)
        except (OSError, ValueError):
            return None  # there are no descriptors, no memory, or less of the object: a copy says what it is

    def _learn(self, number):
        with self._learning:  # two who read might each get what the other one waits for
            while number not in self._known:
                message, control, _, _ = self._socket.recvmsg(_GIVEN.size, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
                if len(message) != _GIVEN.size or not control:
                    raise Missing("a client's memory did not come with its message: are there descriptors left?")
                given, base, size = _GIVEN.unpack(message)
                self._known[given] = _Region(struct.unpack("<i", control[0][2][:4])[0], base, size)
            return self._known[number]

    def forget(self, number):
        """The region is gone."""
        region = self._known.get(number) or self._learn(number)
        del self._known[number]
        fd, region.fd = region.fd, -1
        os.close(fd)
        region.close()

    def give(self, array, keep):
        """Where an array lies that is an input, whole and unchanged, to answer with; keep gets it. -1: it is none. The caller
        knows that nobody else has it."""
        memory, weak = array.base, getweakrefcount(array)
        if type(memory) is np.ndarray:
            weak += getweakrefcount(memory)
            memory = memory.base  # array is another view of the one that as_numpy gave
        lease = getattr(memory, "lease", None)
        if lease is None or weak or getweakrefcount(memory):
            return -1
        if array.nbytes != lease.length or lease.own or not lease.clean(lease.mapping):
            return -1
        lease.given = len(keep)
        keep.append(array)
        return lease.where

    def settle(self, ticket, kept):
        """The request is about to be answered, with what is kept: what it had of its client's memory is the client's again then."""
        for lease in self.leased.pop(ticket, ()):
            if lease.mapping is None or lease.own or 0 <= lease.given < len(kept) and _unshared(kept, lease):
                continue
            if lease.make_own():
                self.count()

    def count(self):
        """The model has made an input its own, by writing into it or by keeping it."""
        self._owned += 1
        if self._owned == _OWN_MOST:
            self.enough()


def _copy(region, offset, length):
    """A part of a region as memory of this process's own."""
    data = np.empty(length, np.uint8)
    at = 0
    while at < length:
        n = os.preadv(region.fd, [memoryview(data)[at:]], offset + at)
        if n == 0:
            raise Missing("a client has shrunk its shared memory while a request used it")
        at += n
    return data
