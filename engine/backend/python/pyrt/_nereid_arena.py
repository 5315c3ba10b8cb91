"""The memory shared with the server: engine/worker/frames/PROTOCOL.md, "Arenas"."""

import mmap
import os
import struct
import threading
import weakref

import numpy as np

import _nereid_channel as channel

TABLE = 65536
HEADER = 64
_WARM = 256 << 10
_TICKET = struct.Struct("<Q")
_HELD = struct.Struct("<I")
_HELD_SIZE_AT = 8
_MADV_REMOVE = getattr(mmap, "MADV_REMOVE", None)


class _Memory(np.ndarray):
    """The bytes of a slot. Arrays on it keep it alive, because numpy stops at a base of a subclass."""


class Input(_Memory):
    """The bytes of a slot that the server has allocated. They begin at offset at of the arena."""

    __slots__ = ("at",)


class _Mapped:
    """A file that grows and never shrinks, mapped as far as needed. Older mappings live as long as the arrays on
    them."""

    def __init__(self, fd):
        self.fd, self.map, self.size, self.bases = fd, None, 0, []
        self._growing = threading.Lock()
        self.reach(1)

    def reach(self, end):
        """Maps the file up to end, at least. Returns whether the file is that long."""
        if end <= self.size:
            return True
        with self._growing:
            size = os.fstat(self.fd).st_size
            if size < end:
                return False
            if end <= self.size:
                return True  # another thread was faster; its mapping may be the larger one
            self.map, self.size = mmap.mmap(self.fd, size), size
            base = np.frombuffer(self.map, np.uint8).__array_interface__["data"][0]
            self.bases.append((base, size, weakref.ref(self.map)))
            return True

    def memory(self, at, length):
        return np.ndarray.__new__(_Memory, (length,), np.uint8, self.map, at)

    def input(self, at, length):
        memory = np.ndarray.__new__(Input, (length,), np.uint8, self.map, at)
        memory.at = at
        return memory


class Down:
    """The arena in which the server allocates."""

    def __init__(self, fd):
        self._mapped = _Mapped(fd)
        self._taken = {}  # id of a weak reference to a slot's memory -> it, the mapping, place of the header

    def state(self, index):
        """Returns the state byte of a request."""
        return State(self._mapped.map, index)

    def take(self, at, length):
        """Returns the data of a slot. The slot is freed when nothing refers to the array's memory any more."""
        mapped = self._mapped
        if at < TABLE + HEADER or not mapped.reach(at + length):
            raise ValueError("a slot of %d bytes at %d is outside the arena" % (length, at))
        memory = mapped.input(at, length)
        ref = weakref.ref(memory, self._free)
        self._taken[id(ref)] = (ref, mapped.map, at - HEADER)
        return memory

    def _free(self, ref):
        _, mapping, header = self._taken.pop(id(ref))
        if not channel.forked:  # the process that serves may still use the slot
            mapping[header] = 0

    def read(self, at, length):
        """Returns a copy of a slot's data and frees the slot."""
        mapped = self._mapped
        if at < TABLE + HEADER or not mapped.reach(at + length):
            raise ValueError("a frame of %d bytes at %d is outside the arena" % (length, at))
        data = bytearray(mapped.map[at : at + length])
        mapped.map[at - HEADER] = 0
        return data

    def find(self, array):
        """Returns the offset in the arena of a C-contiguous array's data; -1: it is not in the arena."""
        base = array.base
        if type(base) is Input and base.nbytes == array.nbytes:
            return base.at
        address = array.__array_interface__["data"][0]
        for base, size, _ in self._mapped.bases:
            if base <= address < base + size:
                return address - base if self._alive(base) else -1
        return -1

    def _alive(self, base):
        self._mapped.bases = [b for b in self._mapped.bases if b[2]() is not None]
        return any(b[0] == base for b in self._mapped.bases)


class State:
    """The state byte of a request, which the server writes. It may be that of another request when the execution of a
    cancelled one has ended, so a cancellation that was seen is remembered."""

    __slots__ = ("_map", "_index", "_cancelled")

    def __init__(self, mapping, index):
        self._map, self._index, self._cancelled = mapping, index, False

    def cancelled(self):
        if not self._cancelled:
            self._cancelled = bool(self._map[self._index] & 1)
        return self._cancelled

    def paused(self):
        return self._map[self._index] & 3 == 2


class Slot:
    """A slot of the up arena. It is free if its header says so and no array of the model is in it."""

    __slots__ = ("at", "room", "memory", "sent", "__weakref__")

    def __init__(self, at, room):
        self.at, self.room, self.memory, self.sent = at, room, None, False


class Up:
    """The arena in which the worker allocates. Safe for use by several threads."""

    def __init__(self, fd, grow=1 << 20):
        os.ftruncate(fd, max(os.fstat(fd).st_size, TABLE))
        self._mapped, self.grow = _Mapped(fd), grow
        self._top = TABLE
        self._rooms = {}  # size class -> its slots
        self._empties = {}  # address of an array made by empty -> its slot
        self._lock = threading.Lock()

    def begin(self, ticket):
        """Reports to the server that the request's execution begins."""
        _TICKET.pack_into(self._mapped.map, 0, ticket)

    def held(self):
        """Returns where the responses of a series are collected until they are sent: (memory, offset, size)."""
        return self._mapped.map, HEADER, TABLE - HEADER

    def hold(self, size):
        """Sets how many bytes of the pending responses are complete. If this process ends before it has sent them,
        the server delivers them."""
        _HELD.pack_into(self._mapped.map, _HELD_SIZE_AT, size)

    def allocate(self, length):
        """Returns a slot of at least length bytes, which is in use."""
        room = _room(length)
        with self._lock:
            slots = self._rooms.setdefault(room, [])
            mapping = self._mapped.map
            for i, slot in enumerate(slots):
                if not mapping[slot.at - HEADER] and (slot.memory is None or slot.memory() is None):
                    if room < _WARM:
                        # The slots that were used last are tried last: they are probably still in use.
                        slots.append(slots.pop(i))
                    # For large slots it matters more that their memory is still in the caches.
                    break
            else:
                slot = self._carve(room)
                slots.append(slot)
            self._mapped.map[slot.at - HEADER] = 1
            slot.memory, slot.sent = None, False
            return slot

    def _carve(self, room):
        start = self._top
        end = start + HEADER + room
        if end > self._mapped.size:
            os.ftruncate(self._mapped.fd, _up(max(end, self._mapped.size + self.grow), mmap.PAGESIZE))
            self._mapped.reach(end)
        self._top = end
        return Slot(start + HEADER, room)

    def write(self, slot, data):
        """Copies bytes-like data into a slot."""
        self._mapped.map[slot.at : slot.at + len(data)] = data

    def store(self, array):
        """Copies an array's data into a slot and returns the slot."""
        slot = self.allocate(array.nbytes)
        np.copyto(np.ndarray(array.shape, array.dtype, self._mapped.map, slot.at), array)
        return slot

    def empty(self, shape, dtype):
        """Returns an array in a new slot."""
        shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        length = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        slot = self.allocate(length)
        memory = self._mapped.memory(slot.at, length)
        slot.memory = mine = weakref.ref(memory)
        array = np.ndarray(shape, dtype, memory)
        address = array.__array_interface__["data"][0]
        self._empties[address] = slot
        weakref.finalize(memory, self._dropped, address, slot, mine).atexit = False
        return array

    def _dropped(self, address, slot, mine):
        if slot.memory is not mine:
            return  # another thread has taken the slot since then
        self._empties.pop(address, None)
        if not slot.sent and not channel.forked:
            self._mapped.map[slot.at - HEADER] = 0

    def send_empty(self, array):
        """Returns the offset of an array made by empty. -1: empty did not make it, or it was sent before. Then its data
        must be copied."""
        if not self._empties:
            return -1
        slot = self._empties.get(array.__array_interface__["data"][0])
        if slot is None or slot.sent or array.nbytes > slot.room:
            return -1
        slot.sent = True
        return slot.at

    def take_back(self, at):
        """Frees a slot that was not sent after all. The slot of an array made by empty stays with that array."""
        for slot in tuple(self._empties.values()):
            if slot.at == at:
                slot.sent = False
                return
        self._mapped.map[at - HEADER] = 0

    def trim(self):
        """Returns the pages of free slots to the system."""
        if _MADV_REMOVE is None:
            return
        with self._lock:
            for slots in self._rooms.values():
                for slot in slots:
                    if self._mapped.map[slot.at - HEADER] or (slot.memory is not None and slot.memory() is not None):
                        continue
                    first, last = _up(slot.at, mmap.PAGESIZE), (slot.at + slot.room) & -mmap.PAGESIZE
                    if last > first:
                        self._mapped.map.madvise(_MADV_REMOVE, first, last - first)

    def free_bytes(self):
        """Returns how many bytes of the arena no slot uses."""
        with self._lock:
            used = sum(
                slot.room + HEADER
                for slots in self._rooms.values()
                for slot in slots
                if self._mapped.map[slot.at - HEADER]
            )
            return self._mapped.size - TABLE - used


def _up(n, multiple):
    return -(-n // multiple) * multiple


def _room(length):
    """Returns the size class of a length. There are eight between two powers of two."""
    if length <= 4096 - HEADER:
        return 4096 - HEADER
    step = 1 << max((length + HEADER).bit_length() - 4, 6)
    return _up(length + HEADER, step) - HEADER
