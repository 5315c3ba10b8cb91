"""Threads that repeat a step."""

import threading


class Workers:
    """Runs steps repeatedly, each in a thread, until end is called. A step that raises stops its thread and is noted in
    faults, unless it may fail."""

    def __init__(self):
        self.stop = threading.Event()
        self.faults, self.counts, self.threads = [], {}, []

    def every(self, seconds, name, step, may_fail=False):
        """Calls step(n) with n = 0, 1, …, the number of calls that succeeded, and waits that many seconds after
        each."""
        self.counts[name] = 0

        def run():
            while not self.stop.is_set():
                try:
                    step(self.counts[name])
                    self.counts[name] += 1
                except BaseException as e:  # an assertion too
                    if not may_fail:
                        self.faults.append(f"{name} after {self.counts[name]}: {e!r}")
                        return
                self.stop.wait(seconds)

        self.threads.append(threading.Thread(target=run, name=name))
        self.threads[-1].start()

    def end(self):
        """Stops the threads and waits for them."""
        self.stop.set()
        for t in self.threads:
            t.join()
