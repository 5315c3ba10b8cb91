"""The responses to a series: requests that arrive together and are executed one after the other."""

import threading
import time

import _nereid_codec as codec

# Times in nanoseconds. Answers are sent together for _HOLD: shorter means more frames, longer delays the first
# answer. An answer waits at most about _LATE for the execution that follows it.
_HOLD = 150_000
_LATE = 10_000_000


class Held:
    """Collects answers and sends them together. It copies an answer when it is added, so that later changes by the
    model do not matter. Answers are sent before the thread waits for the server, and when the next execution takes
    long. They wait in memory that is shared with the server, which delivers them if this process ends. Safe for use
    by several threads.

    send(execution, body, last) sends a frame. alone(execution, answer, took, began, last) sends one answer of any
    kind; its execution began at began and took so many nanoseconds."""

    def __init__(self, codec_, up, send, alone):
        self._codec, self._up, self._send, self._alone = codec_, up, send, alone
        self._memory, self._base, self._room = up.held()
        self._lock = threading.Lock()
        # The number of answers that wait, and the length of the frame with them.
        self._execution, self._count, self._end = 0, 0, codec.HEAD
        # When the execution of the first that waits began, and when the last execution ended.
        self._began = self._mark = 0
        self._series, self._wake = 0, None

    def begin(self, execution):
        """Begins a series."""
        with self._lock:
            self._execution, self._count, self._end = execution, 0, codec.HEAD
            self._began = self._mark = time.monotonic_ns()
            self._series += 1
        if self._wake is None:
            self._wake = threading.Event()
            threading.Thread(target=self._look, name="series", daemon=True).start()

    def add(self, answer, last):
        """Adds the answer to the request whose execution has ended now, a list of ticket, flags, response and the
        names of the wanted outputs; None: there is none. last: the series has ended too."""
        with self._lock:
            ended = time.monotonic_ns()
            if answer is None:
                if last:
                    self._flush(True)
                return
            took = ended - self._mark
            try:
                small = self._codec.small(*answer[1:])
            except Exception:
                small = None  # which shows when it is sent
            if small is None or small[0][0].size > self._room - codec.HEAD:
                if self._count:
                    self._flush(False)
                self._alone(self._execution, answer, took, self._mark, last)
                self._began = self._mark = ended
                return
            (layout, inside, parts), data = small
            if self._end + layout.size > self._room:
                self._flush(False)
            if not self._count:
                self._codec.begin(self._memory, self._base, 0, self._began)
            at = self._end
            layout.pack_into(
                self._memory, self._base + at, parts[0], answer[0], parts[1], min(took, codec.MAX_TIME), parts[2],
                at + inside, parts[3], data,
            )  # fmt: skip
            self._count, self._end, self._mark = self._count + 1, at + layout.size, ended
            self._up.hold(self._end)
            if last or ended - self._began > _HOLD:
                self._flush(last)
            elif not self._wake.is_set():
                self._wake.set()

    def release(self):
        """Sends the answers that wait. It is called before the thread waits for the server."""
        if self._count:
            with self._lock:
                if self._count:
                    self._flush(False)

    def _flush(self, last):
        self._codec.begin(self._memory, self._base, self._count, self._began)
        body = self._memory[self._base : self._base + self._end]
        self._count, self._end, self._began = 0, codec.HEAD, self._mark
        self._send(self._execution, body, last)
        self._up.hold(0)

    def _look(self):
        # Runs while there are series with responses that wait.
        seen = 0
        while True:
            self._wake.wait()
            time.sleep(_LATE / 1e9)
            with self._lock:
                if self._count:
                    if time.monotonic_ns() - self._mark >= _LATE:
                        self._flush(False)
                elif seen == self._series:
                    self._wake.clear()
                seen = self._series
