"""A process that runs one instance of a Python model for the server: engine/worker/frames/PROTOCOL.md."""

import base64
import collections
import gc
import importlib
import importlib.util
import json
import os
import queue
import struct
import sys
import threading
import time

_DEFAULT_CODE = 1  # INTERNAL
_CO_COROUTINE = 0x80  # inspect.CO_COROUTINE


def _hello_error(text):
    """Reports to the server why the worker cannot start. It needs only the standard library."""
    import socket

    body = json.dumps({"protocol": 1, "error": text}).encode()
    socket.socket(fileno=3).sendall(struct.pack("<HHIQ", 10, 0, len(body), 0) + body)
    sys.exit(1)


if __name__ == "__main__":
    if sys.version_info < (3, 8):
        _hello_error("%s is Python %d.%d; models need 3.8 or newer" % ((sys.executable,) + sys.version_info[:2]))
    try:
        import numpy as np
    except Exception as problem:  # a broken installation may raise anything
        _hello_error(
            "%s cannot import numpy, which models need: %s; install it with '%s -m pip install numpy'"
            % (sys.executable, problem, sys.executable)
        )
else:
    import numpy as np

import _nereid_arena as arena
import _nereid_channel as channel
import _nereid_codec as codec
import _nereid_series as series
import triton_python_backend_utils as pb


def describe(problem):
    """Returns the text of an exception in the format of the original's stub: type, text and the frames of the model's
    code, innermost first."""
    try:
        said = str(problem) or "<EMPTY MESSAGE>"
    except BaseException:  # of the model's __str__
        said = "<MESSAGE UNAVAILABLE DUE TO EXCEPTION>"
    text = "%s: %s" % (type(problem).__name__, said)
    trace = problem.__traceback__
    lines = []
    while trace is not None:
        code = trace.tb_frame.f_code
        if os.path.dirname(code.co_filename) != _HERE and not code.co_filename.startswith("<frozen importlib"):
            lines.append("  %s(%d): %s\n" % (code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    return text + "\n\nAt:\n" + "".join(reversed(lines)) if lines else text


_HERE = os.path.dirname(os.path.abspath(__file__))


def _model_code(code, *args):
    """Calls code of the model. A process that this code has forked ends when it leaves it."""
    try:
        return code(*args)
    finally:
        if channel.forked:
            _end_forked(sys.exc_info()[1])


async def _model_coroutine(coroutine):
    """Awaits a coroutine of the model. Returns its result and its exception: some would end the loop."""
    try:
        outcome = await coroutine, None
    except BaseException as problem:
        outcome = None, problem
    if channel.forked:
        _end_forked(outcome[1])
    try:
        return outcome
    finally:
        outcome = None  # the exception refers to this frame


def _result(future):
    """Waits for a coroutine of the model and returns its result, or raises its exception."""
    result, problem = future.result()
    if problem is None:
        return result
    try:
        raise problem
    finally:
        problem = future = None  # as above


def _end_forked(problem):
    """Ends a forked process as Python ends a program: problem is None, what sys.exit raised, or another exception. The
    handlers of atexit are those of the process that serves, so they do not run."""
    code = 0 if problem is None else 1
    try:
        if isinstance(problem, SystemExit) and (problem.code is None or isinstance(problem.code, int)):
            code = (problem.code or 0) & 0xFF
        elif problem is not None:
            sys.stderr.write("a process that the model's code has forked ends: " + describe(problem) + "\n")
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


class Failure(Exception):
    """An error of the worker itself. Its text is complete, without a traceback."""


class Runtime:
    """The part of the worker that triton_python_backend_utils uses."""

    def __init__(self, wire, down, up):
        self._wire, self._codec, self._up = wire, codec.Codec(down, up), up
        self._senders = threading.Lock()
        self._later = collections.deque()
        self.dropped = queue.SimpleQueue()  # (ticket, responses sent, text of an exception) of senders; None: collect
        self._ender = None  # the thread that ends their requests
        self.model_dir, self.decoupled = "", False
        self.said = ""  # what precedes the text of an error of the server, as in the original
        self.serving = False
        self.loading = ""  # the model's name while this process is a part of its load
        self.held = series.Held(self._codec, up, self._send_held, self._send_alone)
        self.failed = ""  # what precedes the text of an exception of the model
        self._executing = 0  # ticket of the first request of the current execution
        self._awaited = 0  # BLS requests of coroutines; guarded by the channel's lock
        self._reader = None
        # The threads that run executions: this one, and that of coroutines.
        self._main, self.loop = threading.get_ident(), 0

    # Calls of models to the server

    def _check_fork(self):
        if channel.forked:
            raise pb.TritonModelException(
                "This process was forked by the model's code. Only the process that forked it can call the server."
            )

    def ask(self, prefix, call):
        """Sends a call and returns its reply. Raises an error as TritonModelException, with prefix before its text."""
        self._check_fork()
        self.flush()
        self.held.release()
        number, replies = self._wire.number(), []

        def take(body):
            replies.append(body)
            return True

        self._wire.expect(channel.REPLY, number, take)
        self._wire.send(channel.CALL, number, json.dumps(call).encode())
        self._wire.wait(lambda: replies)
        reply = json.loads(bytes(replies[0]))
        if "error" in reply:
            raise pb.TritonModelException(prefix + self.said + reply["error"])
        return reply

    def later(self, call):
        """Queues a call without a reply, which is sent with the next frame: the garbage collector may call this at any
        time."""
        self._later.append(call)

    def flush(self):
        while self._later:
            try:
                call = self._later.popleft()
            except IndexError:
                return
            self._wire.send(channel.CALL, self._wire.number(), json.dumps(call).encode())

    def _refuse_own(self, prefix, name):
        """Refuses a call that waits for the load of which this process is a part."""
        if name == self.loading and threading.get_ident() == self._main:
            raise pb.TritonModelException(
                "%s%sthe load of model '%s' would wait for itself" % (prefix, self.said, name)
            )

    def load_model(self, name, config, files):
        prefix = "Failed to load model: "
        self._refuse_own(prefix, name)
        contents = {
            path: base64.b64encode(data.encode() if isinstance(data, str) else data).decode()
            for path, data in files.items()
        }
        call = {"op": "load_model", "name": name, "config": config, "files": contents}
        self.ask(prefix, call)

    def unload_model(self, name, dependents):
        prefix = "Failed to unload model: "
        self._refuse_own(prefix, name)
        self.ask(prefix, {"op": "unload_model", "name": name, "unload_dependents": dependents})

    def is_model_ready(self, name, version):
        call = {"op": "is_model_ready", "name": name, "version": version}
        return self.ask("Failed to check model readiness: ", call)["ready"]

    def log(self, level, text, file, line):
        if level == pb.LogLevel.VERBOSE and not self._wire.verbose:
            return
        if channel.forked:
            sys.stderr.write(text + "\n")  # which the server logs too
            return
        name = file.encode(errors="replace")[-4096:]
        text = text.encode(errors="replace")
        self._wire.send(channel.LOG, 0, struct.pack("<BBHI", level, 0, len(name), line) + name + text)

    def metric(self, metric, op, value):
        self._check_fork()
        self._wire.send(channel.METRIC, 0, struct.pack("<QIId", metric, op, 0, value))

    def empty(self, shape, dtype):
        if dtype == np.object_:
            raise pb.TritonModelException("empty makes arrays of numbers; BYTES tensors have no memory of fixed size")
        self._check_fork()
        return self._up.empty(shape, dtype)

    def free_memory(self):
        return self._up.free_bytes()

    # Requests to other models

    def bls(self, request, stream):
        """Implements exec: returns a response, or with stream an iterator."""
        call = self._begin(request, stream)
        return pb.ResponseIterator(call) if stream else call.only()

    def bls_async(self, request, stream):
        """Implements async_exec: returns a future of the running loop. With stream, its result is an iterator whose
        first response has arrived, so that code which iterates does not stop the loop's other coroutines until then."""
        import asyncio

        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def answered(answer):
            self._awaited -= 1
            try:
                loop.call_soon_threadsafe(_resolve, future, answer)
            except RuntimeError:
                pass  # the loop is closed, so no code waits for the answer

        self._begin(request, stream, answered, None if stream else future)
        return future

    def _read_for_coroutines(self):
        # The loop's thread must not wait on the socket, and the main thread may be waiting for the loop.
        while True:
            self._reader.wait()
            self._reader.clear()
            self._wire.wait(lambda: not self._awaited)

    def _begin(self, request, stream, answered=None, future=None):
        if not self.serving:
            raise pb.TritonModelException("BLS is only supported during the 'execute' function.")
        self._check_fork()
        self.flush()
        self.held.release()
        parent = request._trace._ticket if request._trace is not None else 0
        if not parent and self._executing:
            parent = self._executing
        if stream:
            flags = codec.STREAM
        elif future is not None:
            flags = codec.UNAWAITED
        else:
            thread = threading.get_ident()
            flags = codec.BLOCKING if thread == self._main or self._executing and thread == self.loop else 0
        body, kept = self._codec.bls(request, flags, parent)
        call = Call(self._wire, self._codec, self._wire.number(), answered, future, stream)
        self._wire.expect(channel.BLS_RESPONSE, call.number, call.take)
        if answered is not None:
            with self._wire.turn:
                self._awaited += 1
            if self._reader is None:
                self._reader = threading.Event()
                threading.Thread(target=self._read_for_coroutines, name="bls", daemon=True).start()
        self._wire.send(channel.BLS, call.number, body)
        if answered is not None:
            self._reader.set()
        del kept
        return call

    # Responses

    def send(self, sender, response, flags):
        """Implements InferenceResponseSender.send."""
        self._check_fork()
        final = bool(flags & pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        state = sender._state
        while state is not None and state.paused():
            time.sleep(0.001)
        with self._senders:
            before = sender._sent, sender._closed
            sender._count(response, final)
            self.flush()
            # Encoding under the lock keeps the order of a request's responses.
            try:
                body, kept = self._codec.responses(
                    [(sender._ticket, codec.FINAL if final else 0, response, sender._outputs)]
                )
            except BaseException:
                sender._sent, sender._closed = before  # nothing was sent: another response may be
                raise
            self._wire.send(channel.RESPONSES, 0, body)
            if sender._awaited is not None:
                sender._awaited.set()
        del kept

    def await_response(self, sender):
        """Waits until a model that is not decoupled has sent its response, as it may do after execute has returned."""
        with self._senders:
            if not sender._sent:
                sender._awaited = threading.Event()
        while sender._awaited is not None and not sender._awaited.wait(0.1):
            if sender.is_cancelled():
                return

    def use_decoupled_senders(self):
        self._codec.sender = pb._DecoupledSender

    def end_dropped(self):
        """Ends, from now on, the requests whose senders the model has dropped."""
        if self._ender is None:
            self._ender = threading.Thread(target=self._end_dropped, name="dropped", daemon=True)
            self._ender.start()

    def _end_dropped(self):
        while True:
            dropped = self.dropped.get()
            if dropped is None:
                time.sleep(0.05)  # until the code that raised the exception has ended
                gc.collect()  # the exception may be part of a cycle that holds senders
                continue
            ticket, sent, problem = dropped
            response = None
            if problem is not None or not sent:
                problem = problem or "the model has dropped the response sender, and sent no final response"
                response = pb.InferenceResponse(error=pb.TritonError(self.failed + problem))
            body, kept = self._codec.responses([(ticket, codec.FINAL, response, None)])
            self._wire.send(channel.RESPONSES, 0, body)
            del kept

    def blame(self, problem):
        """Notes an exception that no code of the model handles with the senders that the code had which raised it."""
        text, trace = describe(problem), problem.__traceback__
        while trace is not None:
            frame = trace.tb_frame
            # A frame that still runs, as those of this file may, would keep what f_locals returns.
            names = {} if os.path.dirname(frame.f_code.co_filename) == _HERE else frame.f_locals
            for held in list(names.values()):
                for value in held if isinstance(held, (list, tuple)) else (held,):
                    sender = value._sender if isinstance(value, pb.InferenceRequest) else value
                    if isinstance(sender, pb._DecoupledSender) and sender._problem is None:
                        sender._problem = text
            trace = trace.tb_next
        self.dropped.put(None)

    def _send_held(self, execution, body, last):
        self.flush()
        self._wire.send(channel.RESPONSES, execution, body, channel.DONE if last else 0)

    def _send_alone(self, execution, answer, took, began, last):
        try:
            body, kept = self._codec.one(answer, took, began)
        except Exception as problem:
            error = pb.TritonError(self.failed + describe(problem))
            answer[2:] = pb.InferenceResponse(error=error), None
            body, kept = self._codec.one(answer, took, began)
        self._send_held(execution, body, last)
        del kept

    def finish(self, execution, items, problem=""):
        """Ends an execution with the responses that are left, or with an error for all requests without one."""
        body, kept = self._codec.responses(items, _DEFAULT_CODE + 1 if problem else 0, problem)
        self._wire.send(channel.RESPONSES, execution, body, channel.DONE)
        del kept


class Call:
    """A BLS request that is not answered yet."""

    def __init__(self, wire, codec_, number, answered, future, stream):
        self._wire, self._codec, self.number, self._answered, self._future = wire, codec_, number, answered, future
        self._arrived = collections.deque()
        self._ended, self._stream = False, stream

    def take(self, body):
        if body is None:
            # Code that awaits a future adds a callback. If that cannot be seen, we assume that code waits.
            waits = self._future is None or bool(getattr(self._future, "_callbacks", True))
            self._wire.send(channel.BLS_WAIT, self.number, b"\1" if waits else b"\0")
            return False
        response, final = self._codec.response(body)
        if response is None and self._stream:
            response = pb.InferenceResponse([])  # as from Triton, whose models look at output_tensors()
        if response is not None:
            self._arrived.append(response)
        self._ended = self._ended or final
        if self._answered is None or not (final or self._stream):
            return final
        answered, self._answered = self._answered, None
        if self._stream:
            answered(pb.ResponseIterator(self))
        else:
            answered(self._arrived.popleft() if self._arrived else _empty_response())
        return final

    def next(self):
        """Returns the next response, None after the last."""
        self._wire.wait(lambda: self._arrived or self._ended)
        return self._arrived.popleft() if self._arrived else None

    def finished(self):
        """Reports whether next has returned the last response."""
        return self._ended and not self._arrived

    def only(self):
        response = self.next()
        return _empty_response() if response is None else response

    def cancel(self):
        if not self._ended:
            self._wire.send(channel.BLS_CANCEL, self.number, b"")


def _empty_response():
    return pb.InferenceResponse([], pb.TritonError("Unexpected empty response."))


def _resolve(future, response):
    if not future.done():
        future.set_result(response)


class Worker:
    """Runs the model on behalf of the server."""

    def __init__(self, wire, runtime, up):
        self._wire, self._runtime, self._up = wire, runtime, up
        self._module = self._model = None
        self._name, self._version, self._outputs = "", 1, []
        self._loop = None

    def serve(self):
        """Handles commands until finalize."""
        while True:
            self._runtime.flush()
            kind, number, body = self._wire.command()
            if kind == channel.EXECUTE:
                self._execute(number, body)
                continue
            if kind == channel.SERIES:
                self._series(number, body)
                continue
            call = json.loads(bytes(body))
            operation = getattr(self, "_op_" + call["op"], None)
            if operation is None:
                channel.die("a call named '%s'" % call["op"])
            if call["op"] in ("auto_complete", "initialize"):
                self._runtime.loading = call.get("model_name") or call["args"]["model_name"]
            try:
                reply = _model_code(operation, call)
            except Failure as failure:
                reply = {"error": str(failure), "code": _DEFAULT_CODE}
            # SystemExit and KeyboardInterrupt of a model's code are failures like others
            except BaseException as problem:
                reply = {"error": describe(problem), "code": _DEFAULT_CODE}
            self._runtime.loading = ""
            # The call must be released before the next wait.
            del body
            self._wire.send(channel.REPLY, number, json.dumps(reply).encode())
            if call["op"] == "finalize":
                return

    # Calls

    def _import(self, path, version, platform):
        if self._module is not None:
            return
        folder, file = os.path.split(path)
        stem, extension = os.path.splitext(file)
        if extension != ".py":
            raise Failure('Model name must end with \'.py\'. Model name is "%s".' % file)
        if not os.path.exists(path):
            raise Failure("Python model file not found in '%s'" % path)
        if platform:
            sys.path.append(folder)
            name = stem
        else:
            sys.path.extend((folder, os.path.dirname(folder)))
            name = os.path.basename(folder) + "." + stem
        importlib.invalidate_caches()
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as problem:
            if problem.name is None or not (name == problem.name or name.startswith(problem.name + ".")):
                raise
            module = None
        if module is None or os.path.realpath(getattr(module, "__file__", None) or "") != os.path.realpath(path):
            # Something else has that name.
            spec = importlib.util.spec_from_file_location("nereid_model_" + stem, path)
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
        if not hasattr(module, "TritonPythonModel"):
            raise Failure("AttributeError: module '%s' has no attribute 'TritonPythonModel'" % name)
        self._module = module

    def _op_auto_complete(self, call):
        self._name = call["model_name"]
        self._runtime.model_dir = call.get("model_dir") or os.path.dirname(call["model_path"])
        self._import(call["model_path"], call["model_version"], call.get("platform", ""))
        config = pb.ModelConfig(json.dumps(call["config"]))
        complete = getattr(self._module.TritonPythonModel, "auto_complete_config", None)
        if complete is None:
            return {"config": call["config"], "completed": False}
        config = complete(config)
        if not isinstance(config, pb.ModelConfig):
            raise Failure(
                "auto_complete_config function in model '%s' must return a valid pb.ModelConfig object." % self._name
            )
        return {"config": config._model_config, "completed": True}

    def _op_initialize(self, call):
        runtime = self._runtime
        self._name = call["args"]["model_name"]
        self._version = int(call["args"]["model_version"])
        runtime.decoupled, runtime.model_dir = call["decoupled"], call["model_dir"]
        self._wire.verbose = call.get("log_level", 0)
        self._instance = call["args"]["model_instance_name"]
        runtime.failed = "Failed to process the request(s) for model '%s', message: " % self._instance
        runtime.said = "Failed to process the request for model '%s', message: " % self._instance
        self._outputs = call["outputs"]
        self._up.grow = max(int(call.get("grow") or 0), 1 << 16)
        self._import(call["model_path"], call["args"]["model_version"], call.get("platform", ""))
        self._model = self._module.TritonPythonModel()
        if hasattr(self._model, "initialize"):
            self._model.initialize(call["args"])
        # What exists now stays, so the garbage collector need not visit it again.
        gc.collect()
        gc.freeze()
        runtime.serving = True
        if runtime.decoupled:
            runtime.use_decoupled_senders()
            self._watch_threads()
        code = getattr(getattr(self._model, "execute", None), "__code__", None)
        return {
            "async": code is not None and bool(code.co_flags & _CO_COROUTINE),
            "is_ready": hasattr(self._model, "is_ready"),
        }

    def _op_is_ready(self, call):
        answer = self._model.is_ready() if hasattr(self._model, "is_ready") else True
        if _is_coroutine(answer):
            answer = _result(self._run(answer))
        if not isinstance(answer, bool):
            raise Failure("is_ready() must return a bool, found type '%s'" % type(answer))
        return {"ready": answer}

    def _op_finalize(self, call):
        self._runtime.serving = False
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
        if self._model is not None and hasattr(self._model, "finalize"):
            self._model.finalize()
        return {}

    def _op_trim(self, call):
        self._up.trim()
        return {}

    # Executions

    def _execute(self, execution, body):
        runtime = self._runtime
        requests = None
        try:
            requests = runtime._codec.requests(body, self._name, self._version, self._outputs, runtime)
            items = self._call(requests)
        except codec.Broken as broken:
            channel.die(str(broken))
        except Failure as failure:
            self._fail(execution, [r._sender for r in requests or ()], str(failure))
            return
        except BaseException as problem:  # SystemExit and KeyboardInterrupt of a model's code are failures like others
            self._fail(execution, [r._sender for r in requests or ()], describe(problem))
            return
        finally:
            runtime._executing = 0
        # From here on, at most the model refers to the inputs.
        senders, requests = [request._sender for request in requests], None
        try:
            runtime.finish(execution, items)
        except Exception as problem:
            self._fail(execution, senders, describe(problem))

    def _call(self, requests):
        """Makes the model execute requests. Returns the items to send; see Codec.responses."""
        runtime = self._runtime
        runtime._executing = requests[0]._ticket if requests else 0
        if not hasattr(self._model, "execute"):
            raise Failure("Python model %s does not implement `execute` method." % self._module.__file__)
        returned = _model_code(self._model.execute, requests)
        if _is_coroutine(returned):
            future = self._run(returned)
            if runtime.decoupled:
                senders = [request._sender for request in requests]
                future.add_done_callback(lambda future: self._coroutine_ended(future, senders))
                returned = None
            else:
                returned = _result(future)
        items = self._responses(requests, returned)
        if runtime.decoupled and not all(request._sender._closed for request in requests):
            runtime.end_dropped()
        return items

    def _series(self, execution, body):
        """Executes requests one after the other. Responses that follow each other quickly are sent together."""
        runtime = self._runtime
        try:
            requests = runtime._codec.requests(body, self._name, self._version, self._outputs, runtime)
        except codec.Broken as broken:
            channel.die(str(broken))
        requests.reverse()
        held = runtime.held
        held.begin(execution)
        while requests:
            answer = self._one(requests.pop())
            held.add(answer, not requests)

    def _one(self, request):
        """Does the same as _call for one request of a series. Returns its item, None if there is none. An exception
        becomes an error response."""
        state = request._state
        if state is not None and state.cancelled():
            problem = pb.TritonError("request was cancelled", pb.TritonError.CANCELLED)
            return [request._ticket, codec.FINAL, pb.InferenceResponse(error=problem), None]
        self._up.begin(request._ticket)
        try:
            answers = self._call([request])
            return answers[0] if answers else None
        except Failure as failure:
            text = str(failure)
        except BaseException as problem:  # as in _execute
            text = describe(problem)
        finally:
            self._runtime._executing = 0
        request._sender._closed = True
        if self._answered(request._sender):
            return [request._ticket, codec.FINAL, None, None]
        error = pb.TritonError(self._runtime.failed + text)
        return [request._ticket, codec.FINAL, pb.InferenceResponse(error=error), None]

    def _answered(self, sender):
        """Reports whether a request has the one response that a model which is not decoupled may send."""
        return sender._sent > 0 and not self._runtime.decoupled

    def _fail(self, execution, senders, text):
        items = [[s._ticket, codec.FINAL, None, None] for s in senders if self._answered(s) and not s._closed]
        for sender in senders:
            sender._closed = True
        self._runtime.finish(execution, items, text)

    def _responses(self, requests, returned):
        if returned is None:
            returned = [None] * len(requests)
        elif self._runtime.decoupled:
            raise Failure(
                "Python model '%s' is using the decoupled mode and the execute function must return None."
                % self._instance
            )
        if not isinstance(returned, list):
            raise Failure("Expected a list in the execute return, found type '%s'." % type(returned))
        if len(returned) != len(requests):
            raise Failure(
                "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
                "InferenceRequest(s) size is:%d, and InferenceResponse(s) size is:%d\n" % (len(requests), len(returned))
            )
        items = []
        for request, response in zip(requests, returned):
            reschedule = request._release == pb.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE
            if response is None:
                if reschedule:
                    request._sender._closed = True
                    items.append([request._ticket, codec.RESCHEDULE, None, None])
                elif request._sender._taken and not self._runtime.decoupled:
                    self._runtime.await_response(request._sender)
                continue
            if reschedule:
                raise Failure(
                    "Expected a None object in the execute function return list for reschduled request, "
                    "found type '%s'."
                    % type(response)
                )
            if not isinstance(response, pb.InferenceResponse):
                raise Failure(
                    "Expected an 'InferenceResponse' object in the execute function return list, found type '%s'."
                    % type(response)
                )
            try:
                request._sender._count(response, True)
            except pb.TritonModelException as problem:
                raise Failure(str(problem)) from None
            items.append([request._ticket, codec.FINAL, response, request._outputs])
        return items

    def _run(self, coroutine):
        import asyncio

        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            if self._runtime.decoupled:
                self._loop.set_exception_handler(self._unhandled)
            threading.Thread(target=self._spin, args=(self._loop,), name="asyncio", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(_model_coroutine(coroutine), self._loop)

    def _coroutine_ended(self, future, senders):
        """Ends the requests of an execution of a decoupled model whose coroutine has raised an exception."""
        problem = None if future.cancelled() else future.result()[1]
        if problem is None:
            return
        text = describe(problem)
        self._runtime.log(pb.LogLevel.ERROR, text, __file__, 0)
        for sender in senders:
            error = pb.InferenceResponse(error=pb.TritonError(self._runtime.failed + text))
            try:
                sender.send(error, pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            except pb.TritonModelException:
                pass  # it has been closed

    def _unhandled(self, loop, context):
        """Handles an exception of a task that no code has asked for."""
        problem = context.get("exception")
        if problem is not None:
            self._runtime.blame(problem)
        loop.default_exception_handler(context)

    def _watch_threads(self):
        before = threading.excepthook

        def unhandled(args):
            if args.exc_value is not None:
                self._runtime.blame(args.exc_value)
            before(args)

        threading.excepthook = unhandled

    def _spin(self, loop):
        import asyncio

        if not self._runtime.decoupled:  # else no execution waits for its coroutine
            self._runtime.loop = threading.get_ident()
        asyncio.set_event_loop(loop)
        while True:
            try:
                loop.run_forever()
                return
            except BaseException as problem:  # SystemExit and KeyboardInterrupt of a task end the loop
                if channel.forked:
                    raise
                self._runtime.blame(problem)


def _is_coroutine(value):
    # Without asyncio, which is slow to import.
    return type(value).__name__ == "coroutine"


def _take_descriptors():
    for fd in (3, 4, 5):
        os.set_inheritable(fd, False)
    down, up = arena.Down(4), arena.Up(5)
    wire = channel.Channel(channel.attach(3), down, up)
    return wire, down, up


def main():
    wire, down, up = _take_descriptors()
    runtime = Runtime(wire, down, up)
    pb._runtime = runtime
    hello = {
        "protocol": 1,
        "pid": os.getpid(),
        "runtime": "python %d.%d.%d" % sys.version_info[:3],
        "versions": {"numpy": np.__version__},
    }
    wire.send(channel.HELLO, 0, json.dumps(hello).encode())
    # Models import this file's runtime by the module's name, not as __main__.
    sys.modules.setdefault("nereid_worker", sys.modules[__name__])
    Worker(wire, runtime, up).serve()
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of the model that still run do not keep the process alive.
    os._exit(0)


if __name__ == "__main__":
    main()
