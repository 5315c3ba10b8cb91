"""The control socket: engine/worker/frames/PROTOCOL.md, "Frames".

There is no thread that always reads. One of the threads that wait for frames reads for all of them, until its own
frame has come; then another one reads. So a model with one thread never switches threads."""

import collections
import os
import signal
import socket
import struct
import sys
import threading
import traceback

(
    CALL, REPLY, EXECUTE, RESPONSES, BLS, BLS_RESPONSE, BLS_CANCEL, LOG, METRIC, HELLO, BLS_WAIT,
) = range(1, 12)  # fmt: skip
IN_ARENA, DONE, IN_SERIES, VERBOSE = 1, 2, 4, 16
SERIES = 1 << 16  # the kind in this module of an EXECUTE with the flag SERIES
MAX_PACKET = 65536
_HEADER = struct.Struct("<HHIQ")
_ARENA_BODY = struct.Struct("<QQ")
forked = False  # whether this is a process that the model's code has forked. It has no part in the connection


def _note_fork():
    global forked
    forked = True


os.register_at_fork(after_in_child=_note_fork)


def die(reason=""):
    """Ends this process and those that it started: the server has ended (reason is empty), or one side does not
    follow the protocol."""
    try:
        if reason:
            sys.stderr.write("the worker ends: " + reason + "\n")
            sys.stderr.flush()
        os.killpg(0, signal.SIGKILL)
    finally:
        os._exit(1)


class Channel:
    """Frames in and out. Safe for use by several threads."""

    def __init__(self, sock, down, up):
        self._socket, self._down, self._up = sock, down, up
        self._buffer = memoryview(bytearray(MAX_PACKET))
        self._sending = threading.Lock()
        # Two names of one lock: entering a Condition is a call in Python, entering its lock is not.
        self._lock = threading.Lock()
        self.turn = threading.Condition(self._lock)
        self._reading, self._waiting = False, 0
        self.commands = collections.deque()  # (kind, id, body) for the main thread
        self._answers = {}  # (kind, id) -> what takes the body
        self._last = 0
        self.verbose = 0  # the server's log takes verbose lines, as the last execution said
        os.register_at_fork(after_in_child=sock.close)  # of the forked process; the other keeps its own

    def number(self):
        """Returns a new number for a call to the server."""
        with self._lock:
            self._last += 1
            return self._last

    def expect(self, kind, number, take):
        """Makes the channel call take(body), under its lock, for each frame of this kind and number, until take returns
        True. body is None if the kind is BLS_RESPONSE and the server asks whether code waits for it."""
        with self._lock:
            self._answers[kind, number] = take

    def send(self, kind, number, body, flags=0):
        """Sends a frame. What a forked process sends, as finalizers do, goes nowhere."""
        if forked:
            return
        if len(body) > MAX_PACKET - _HEADER.size:
            slot = self._up.allocate(len(body))
            self._up.write(slot, body)
            body, flags = _ARENA_BODY.pack(slot.at, len(body)), flags | IN_ARENA
        packet = _HEADER.pack(kind, flags, len(body), number) + body
        try:
            with self._sending:
                self._socket.sendall(packet)
        except OSError:
            die()

    def wait(self, done):
        """Waits until done() is true. It is called under the channel's lock after every frame."""
        turn, lock = self.turn, self._lock
        with lock:
            while True:
                if done():
                    return
                if not self._reading:
                    break
                self._waiting += 1
                turn.wait()
                self._waiting -= 1
            self._reading = True
        try:
            while True:
                frame = self._receive()
                with lock:
                    self._dispatch(*frame)
                    ended = done()
                    if ended:
                        self._reading = False
                    if self._waiting:
                        turn.notify_all()
                    if ended:
                        return
        except BaseException:
            with lock:
                self._reading = False
                turn.notify_all()
            raise

    def command(self):
        """Waits for the next command and returns it: (kind, id, body). Only the main thread calls this."""
        self.wait(self.commands.__len__)
        return self.commands.popleft()

    def _receive(self):
        try:
            length = self._socket.recv_into(self._buffer)
        except OSError:
            length = 0
        if length == 0:
            die()
        if length < _HEADER.size:
            die("a frame has %d bytes" % length)
        kind, flags, size, number = _HEADER.unpack_from(self._buffer)
        body = bytearray(self._buffer[_HEADER.size : length])
        if size != len(body):
            die("a frame says that its body has %d bytes and it has %d" % (size, len(body)))
        if flags & IN_ARENA:
            body = self._down.read(*_ARENA_BODY.unpack(body))
        if kind == EXECUTE:
            self.verbose = flags & VERBOSE
            if flags & IN_SERIES:
                kind = SERIES
        return kind, number, body

    def _dispatch(self, kind, number, body):
        if kind == CALL or kind == EXECUTE or kind == SERIES:
            self.commands.append((kind, number, body))
            return
        if kind == BLS_WAIT:
            kind, body = BLS_RESPONSE, None
        if kind not in (REPLY, BLS_RESPONSE):
            die("a frame of kind %d" % kind)
        take = self._answers.get((kind, number))
        try:
            if take is not None and take(body):
                del self._answers[kind, number]
        except Exception:
            die(traceback.format_exc())


def attach(fd):
    """Returns the socket of an inherited descriptor."""
    sock = socket.socket(fileno=fd)
    sock.setblocking(True)
    return sock
