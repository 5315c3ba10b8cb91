"""Records of the protocol: engine/worker/frames/PROTOCOL.md, "Tensors", "Requests", "Responses"."""

import struct
from sys import getrefcount

import numpy as np

import _nereid_arena as arena
import triton_python_backend_utils as pb

FINAL, ERROR, EMPTY, RESCHEDULE = 1, 2, 4, 8
STREAM, BLOCKING, UNAWAITED = 1, 4, 8
IN_FRAME, IN_DOWN, IN_UP = 0, 1, 2

# The largest record of a request that is remembered as a form, in bytes, and how many requests of its size in a row may
# differ from it.
_FORM_MAX = 1024
_UNLIKE_MAX = 8

# The most bytes of data in a frame: of one tensor, and of all its tensors.
INLINE_MOST = 8192
INLINE_BUDGET = 49152

_TENSOR = struct.Struct("<IHBBQQ")
_SIGNATURE = struct.Struct("<BBHI")
_REQUEST = struct.Struct("<IIQQQQIHHHHIIII")
_SIZE = struct.Struct("<I")
_RESPONSE = struct.Struct("<IIQHHIII")
_RESPONSES = struct.Struct("<IIII")
_BLS = struct.Struct("<qQIHHII")
_NAME = struct.Struct("<H")
_TICKET = struct.Struct("<Q")
_TICKET_AT = _RESPONSES.size + 8  # of the first response's, where there is no text
HEAD = _RESPONSES.size

_ZEROS = b"\0" * 16
MAX_TIME = 0xFFFFFFFF  # nanoseconds


def moment(nanoseconds):
    """A moment of time.monotonic_ns as records have it."""
    return nanoseconds // 1000 & 0xFFFFFFFF


class Broken(Exception):
    """A frame that does not decode."""


def _references(tensor):
    array = tensor._array
    return getrefcount(array)


# The result of _references for an array that only a tensor refers to.
_ONE = _references(pb.Tensor("x", np.zeros(1, np.uint8)))


def _only(tensor):
    """Returns whether the tensor's array is in an input, and only the tensor refers to the array and the input."""
    array = tensor._array
    while getrefcount(array) <= _ONE:
        if isinstance(array, arena.Input):
            return tensor._data is None
        array = array.base
        if not isinstance(array, np.ndarray):
            return False
    return False


class _Form:
    """The constant parts of a request's record with one tensor: all but the ticket, the state and the offset of the
    tensor's data. Most requests repeat them.

    unlike: how many requests of this size in a row differed. tensor_at: where the tensor's record begins. layout:
    of the record. constant: the constant parts. fields: their meaning for the request. tensor: their meaning for
    the tensor (name, type, shape, place, length)."""

    __slots__ = ("unlike", "tensor_at", "layout", "constant", "fields", "tensor")


class Codec:
    """Decodes frames of the server and encodes frames for it. Its caches of names, shapes and records are bounded."""

    def __init__(self, down, up):
        self._down, self._up = down, up
        self._signatures = {}  # signature -> (name, type, shape)
        self._forms = {}  # size of a request's record -> _Form of the last one of that size
        # (name, type, shape, flags) -> what precedes and follows the ticket of a response with that tensor
        self._heads = {}
        self._records = {}  # the same, and the place -> the layout of a response's record and its constant parts
        self._wholes = {}  # the same for a series, with the tensor's data in the record
        self._written = {}  # (name, type, shape) -> signature with its padding
        self._named = {}  # bytes of a list of names -> names
        self._all = None  # the names that stand for all outputs of the model
        self.sender = pb.InferenceResponseSender  # makes the sender of a request

    # Reading

    def _tensor(self, body, at):
        """Decodes a tensor's record: (tensor, end of the record). body: a bytearray."""
        size, signed, place, _, offset, length = _TENSOR.unpack_from(body, at)
        signature = bytes(body[at + 24 : at + 24 + signed])
        known = self._signatures.get(signature)
        if known is None:
            known = self._learn(signature)
        name, code, shape = known
        return pb.Tensor._received(name, code, shape, self._data(body, name, place, offset, length)), at + size

    def _data(self, body, name, place, offset, length):
        """Returns the bytes of a tensor, an ndarray."""
        if place == IN_FRAME:
            if offset + length > len(body):
                raise Broken("tensor '%s' is outside its frame" % name)
            return np.frombuffer(body, np.uint8, length, offset)
        if place == IN_DOWN:
            return self._down.take(offset, length)
        raise Broken("tensor '%s' is in place %d" % (name, place))

    def _learn(self, signature):
        code, n, named, _ = _SIGNATURE.unpack_from(signature)
        shape = struct.unpack_from("<%dq" % n, signature, 8)
        name = signature[8 + 8 * n : 8 + 8 * n + named].decode()
        if len(self._signatures) >= 1024:
            self._signatures.clear()
        known = self._signatures[signature] = (name, code, shape)
        return known

    def _names(self, packed):
        names = self._named.get(packed)
        if names is None:
            names, at = [], 0
            while at < len(packed):
                (length,) = _NAME.unpack_from(packed, at)
                names.append(packed[at + 2 : at + 2 + length].decode())
                at += 2 + length
            if len(self._named) >= 1024:
                self._named.clear()
            self._named[packed] = names
        return names

    def requests(self, body, model, version, outputs, runtime):
        """The requests of an EXECUTE. outputs: all of the model's, for requests that name none."""
        self._all = outputs
        (count,) = _SIZE.unpack_from(body)
        at, made = 8, []
        for _ in range(count):
            (size,) = _SIZE.unpack_from(body, at)
            form = self._forms.get(size)
            if form is not None:
                _, flags, ticket, numbers, state, texts, offset, rest = form.layout.unpack_from(body, at)
                if (flags, numbers, texts, rest) != form.constant:
                    form = None
            if form is not None:
                form.unlike, fields = 0, form.fields
                name, code, shape, place, length = form.tensor
                data = self._data(body, name, place, offset, length)
                tensors, trace = [pb.Tensor._received(name, code, shape, data)], None
            else:
                ticket, state, fields, trace, tensors = self._request_at(body, at, size)
            identity, correlation, names, parameters, flags, timeout, priority = fields
            request = pb.InferenceRequest.__new__(pb.InferenceRequest)
            request._id, request._correlation = identity, correlation
            request._parameters, request._trace = parameters, trace
            request._outputs = outputs if names is None else names
            request._inputs, request._model, request._version = tensors, model, version
            request._flags, request._timeout, request._priority, request._memory = flags, timeout, priority, None
            request._ticket, request._release = ticket, pb.TRITONSERVER_REQUEST_RELEASE_ALL
            request._state = None if state == 0xFFFFFFFF else self._down.state(state)
            request._sender = self.sender(runtime, ticket, request._outputs, request._state)
            made.append(request)
            at += size
        return made

    def _request_at(self, body, start, size):
        """Decodes a request's record: (ticket, state, other fields, trace, inputs)."""
        (
            _, flags, ticket, correlation, timeout, priority, state, ids, texts, inputs, named, names, parameters,
            trace, _,
        ) = _REQUEST.unpack_from(body, start)  # fmt: skip
        at = start + _REQUEST.size
        identity = body[at : at + ids].decode() if ids else ""
        at += ids
        if texts:
            correlation = body[at : at + texts].decode()
        at += texts
        wanted = self._names(bytes(body[at : at + names])) if named else None
        at += names
        settings = body[at : at + parameters].decode() if parameters else "{}"
        at += parameters
        traced = pb.InferenceTrace(ticket, body[at : at + trace].decode() if trace else "") if flags & 4 else None
        at = first = (at + trace + 7) & -8
        tensors = []
        for _ in range(inputs):
            tensor, at = self._tensor(body, at)
            tensors.append(tensor)
        if at != start + size:
            raise Broken("a request's record has %d bytes and says %d" % (at - start, size))
        fields = identity, correlation, wanted, settings, flags & 3, timeout, priority
        if inputs == 1 and traced is None and size <= _FORM_MAX:
            self._learn_form(body, start, size, first - start, fields, tensors[0])
        return ticket, state, fields, traced, tensors

    def _learn_form(self, body, start, size, tensor_at, fields, tensor):
        """Remembers a request's record with one tensor. Where requests keep differing, for example by their ids,
        it stops doing so, except for one in 64."""
        form = self._forms.get(size)
        if form is None:
            if len(self._forms) >= 1024:
                self._forms.clear()
            form = _Form()
            form.unlike, form.tensor_at = 0, -1
        else:
            form.unlike += 1
            if form.unlike > _UNLIKE_MAX and form.unlike % 64:
                return
        layout = (
            form.layout  # it takes long to make
            if form.tensor_at == tensor_at
            else struct.Struct("<I4sQ24sI%dsQ%ds" % (tensor_at - 36, size - tensor_at - 16))
        )
        _, flags, _, numbers, _, texts, _, rest = layout.unpack_from(body, start)
        _, _, place, _, _, length = _TENSOR.unpack_from(body, start + tensor_at)
        form.tensor_at, form.layout, form.fields = tensor_at, layout, fields
        form.constant = flags, numbers, texts, rest
        form.tensor = tensor._name, tensor._code, tensor._shape, place, length
        self._forms[size] = form

    def response(self, body):
        """Decodes a BLS_RESPONSE: (response or None, whether it is the last one)."""
        count, _, text, _ = _RESPONSES.unpack_from(body)
        if count != 1:
            raise Broken("a BLS_RESPONSE has %d responses" % count)
        at = 16 + ((text + 7) & -8)
        _, flags, _, outputs, code, text, parameters, _ = _RESPONSE.unpack_from(body, at)
        at += _RESPONSE.size
        message = body[at : at + text].decode(errors="replace")
        settings = body[at + text : at + text + parameters].decode() if parameters else "{}"
        at = (at + text + parameters + 7) & -8
        if flags & EMPTY:
            return None, bool(flags & FINAL)
        made = pb.InferenceResponse.__new__(pb.InferenceResponse)
        tensors = []
        for _ in range(outputs):
            tensor, at = self._tensor(body, at)
            tensors.append(tensor)
        made._tensors, made._parameters = tensors, settings
        made._error = pb.TritonError(message, code) if flags & ERROR else None
        return made, bool(flags & FINAL)

    # Writing

    def _signature(self, tensor):
        key = (tensor._name, tensor._code, tensor._shape)
        known = self._written.get(key)
        if known is None:
            name = tensor._name.encode()
            shape = tensor._shape
            signature = _SIGNATURE.pack(tensor._code, len(shape), len(name), 0)
            signature += struct.pack("<%dq" % len(shape), *shape) + name
            known = (len(signature), signature + b"\0" * (-len(signature) & 7))
            if len(self._written) >= 1024:
                self._written.clear()
            self._written[key] = known
        return known

    def tensors(self, writer, tensors):
        """Appends the records of tensors. writer.finish appends their data."""
        for tensor in tensors:
            length, signature = self._signature(tensor)
            writer.tensor(length, signature, *self._place(writer, tensor))

    def _place(self, writer, tensor):
        """Returns (place, offset, length, data). data goes into the frame; None: it is in an arena."""
        code = tensor._code
        if tensor._array is None and code == pb._BYTES:
            data = tensor._data  # an input that was never decoded
        elif code == pb._BYTES:
            data = pb.serialize_byte_tensor(tensor._numpy()) or b""
        else:
            data = tensor._numpy()
        length = data.nbytes if isinstance(data, np.ndarray) else len(data)
        if length <= INLINE_MOST and writer.inline + length <= INLINE_BUDGET:
            writer.inline += length + 16
            return IN_FRAME, 0, length, data.tobytes() if isinstance(data, np.ndarray) else data
        if isinstance(data, np.ndarray):
            del data
            place, at = self._outside(tensor, writer.keep, writer.lent)
            return place, at, length, None
        slot = self._up.allocate(length)
        self._up.write(slot, data)
        return IN_UP, slot.at, length, None

    def _outside(self, tensor, keep, lent=False):
        """Returns (place, offset) of an array's data in an arena. The data is copied there, unless it is in an input
        that the model cannot change any more. lent: the model does not change it before it has the response."""
        unseen = tensor._array is None  # texts of an input: the model gets only copies of them
        if unseen or lent or _only(tensor):
            array = tensor._data if unseen else tensor._array
            at = self._down.find(array)
            if at >= 0:
                keep.append(array)
                if not unseen and not lent:
                    tensor._give_away()
                return IN_DOWN, at
        array = tensor._data if unseen else tensor._array
        at = self._up.send_empty(array)
        return IN_UP, at if at >= 0 else self._up.store(array).at

    def responses(self, items, code=0, text=""):
        """Encodes a RESPONSES: (body, objects to keep until the frame is sent). items: (ticket, flags, response or
        None, names of the wanted outputs or None). code is that of the execution's error plus 1."""
        if len(items) == 1 and not code:
            ticket, flags, response, wanted = items[0]
            tensor = self._lone(response, wanted)
            if tensor is not None:
                if tensor._array.nbytes <= INLINE_MOST:
                    return self._plain(ticket, flags, tensor), ()
                return self._large(ticket, flags, tensor)
        return self._responses(items, code, text)

    def _lone(self, response, wanted):
        """Returns the tensor of a response with one tensor of numbers, as most responses are; else None."""
        if response is None or response._error is not None:
            return None
        if response._parameters != "{}" or len(response._tensors) != 1:
            return None
        tensor = response._tensors[0]
        if tensor._array is None or tensor._code == pb._BYTES:
            return None
        if wanted is not self._all and wanted is not None and tensor._name not in wanted:
            return None
        return tensor

    def _plain(self, ticket, flags, tensor):
        """Encodes a RESPONSES with one response with one small tensor. For equal name, type and shape only the ticket
        and the data differ."""
        key = (tensor._name, tensor._code, tensor._shape, flags)
        known = self._heads.get(key)
        data = tensor._array.tobytes()
        if known is None:
            body, _ = self._responses([(ticket, flags, pb.InferenceResponse([tensor]), None)], 0, "")
            known = body[:_TICKET_AT], body[_TICKET_AT + 8 : len(body) - len(data)]
            if len(self._heads) >= 1024:
                self._heads.clear()
            self._heads[key] = known
        return b"".join((known[0], _TICKET.pack(ticket), known[1], data))

    def one(self, item, took, began):
        """Encodes a RESPONSES with one response of a series, as responses does. took is how many nanoseconds its
        execution took, and began when it began."""
        began = moment(began)
        tensor = self._lone(*item[2:])
        if tensor is not None and tensor._array.nbytes > INLINE_MOST:
            return self._large(*item[:2], tensor, took, began)
        return self._responses([(*item, took)], 0, "", began)

    @staticmethod
    def begin(memory, at, count, began):
        """Writes the part of a RESPONSES before its count responses."""
        _RESPONSES.pack_into(memory, at, count, 0, 0, moment(began))

    def small(self, flags, response, wanted):
        """Returns (record, bytes) of a response with one small tensor of numbers; None for another response. A record
        is (layout, offset of the bytes in it, constant parts), for layout.pack_into(memory, at, parts[0], ticket,
        parts[1], nanoseconds that it took, parts[2], offset of the bytes in the frame, parts[3], bytes)."""
        tensor = self._lone(response, wanted)
        if tensor is None or tensor._array.nbytes > INLINE_MOST:
            return None
        array = tensor._array
        key = (tensor._name, tensor._code, tensor._shape, flags, IN_FRAME)
        return self._wholes.get(key) or self._whole(key, tensor, array.nbytes), array.tobytes()

    def _large(self, ticket, flags, tensor, took=0, began=0):
        """Does the same as _responses for one response, whose only tensor is too large for the frame."""
        keep, size = [], tensor._array.nbytes
        place, offset = self._outside(tensor, keep)
        key = (tensor._name, tensor._code, tensor._shape, flags, place)
        layout, head, counts, placed, rest = self._records.get(key) or self._record(key, tensor, size)
        record = layout.pack(head, ticket, counts, min(took, MAX_TIME), placed, offset, rest)
        return _RESPONSES.pack(1, 0, 0, began) + record, keep

    def _record(self, key, tensor, nbytes):
        """Returns the layout of a response with one tensor, and its parts except ticket, time and offset."""
        length, signature = self._signature(tensor)
        size = 24 + len(signature)
        whole = _RESPONSE.pack(_RESPONSE.size + size, key[3], 0, 1, 0, 0, 0, 0) + (
            _TENSOR.pack(size, length, key[4], 0, 0, nbytes) + signature
        )
        layout = struct.Struct("<8sQ12sI8sQ%ds" % (len(whole) - 48))
        if len(self._records) >= 1024:
            self._records.clear()
        record = self._records[key] = (layout, whole[:8], whole[16:28], whole[32:40], whole[48:])
        return record

    def _whole(self, key, tensor, nbytes):
        """Returns the same as _record, with the tensor's data in the record. Its size is a multiple of 16."""
        layout, head, counts, placed, rest = self._record(key, tensor, nbytes)
        inside = (layout.size + 15) & -16
        size = (inside + nbytes + 15) & -16
        sizes = len(rest) + inside - layout.size, nbytes, size - inside - nbytes
        layout = struct.Struct("<8sQ12sI8sQ%ds%ds%dx" % sizes)
        if len(self._wholes) >= 1024:
            self._wholes.clear()
        whole = self._wholes[key] = (layout, inside, (struct.pack("<I", size) + head[4:], counts, placed, rest))
        return whole

    def _responses(self, items, code, text, began=0):
        writer = Writer()
        message = text.encode(errors="replace")
        writer.add(_RESPONSES.pack(len(items), code, len(message), began))
        writer.add(message)
        writer.pad()
        try:
            for item in items:
                self._response(writer, *item)
        except BaseException:
            self._take_back(writer)
            raise
        return writer.finish(), writer.keep

    def _take_back(self, writer):
        """Frees the tensors in the up arena of a frame that could not be encoded."""
        for at in writer.up:
            self._up.take_back(at)

    def _response(self, writer, ticket, flags, response, wanted, took=0):
        error, tensors, code, message, parameters = None, (), 0, b"", b""
        if response is not None:
            error = response._error
            if response._parameters != "{}":
                parameters = response._parameters.encode()
            if error is None:
                tensors = response._tensors
                if wanted is not None and wanted is not self._all:  # otherwise the server checks the names
                    tensors = [t for t in tensors if t._name in wanted]
            else:
                flags |= ERROR
                code = error._code if 0 <= error._code <= pb.TritonError.CANCELLED else pb.TritonError.INTERNAL
                message = error._message.encode(errors="replace")
        else:
            flags |= EMPTY
        begin = writer.begin(_RESPONSE.size)
        writer.add(message + parameters)
        writer.pad()
        self.tensors(writer, tensors)
        took = min(took, MAX_TIME)
        writer.end(begin, _RESPONSE, flags, ticket, len(tensors), code, len(message), len(parameters), took)

    def bls(self, request, flags, parent):
        """Encodes a BLS: (body, objects to keep until the frame is sent). flags: STREAM, BLOCKING, UNAWAITED."""
        writer = Writer(lent=True)
        model = request._model.encode()
        memory = request._memory
        kind = 2 if memory is not None and memory._kind == pb.TRITONSERVER_MEMORY_GPU else 0
        device = memory._device & 0xFFFFFFFF if kind else 0
        if request._trace is not None:
            flags |= 2
        writer.add(_BLS.pack(request._version, parent, flags, len(model), 0, kind, device))
        writer.add(model)
        writer.pad()
        try:
            self._request(writer, request)
        except BaseException:
            self._take_back(writer)
            raise
        return writer.finish(), writer.keep

    def _request(self, writer, request):
        identity = request._id.encode()
        text, number = b"", request._correlation
        if isinstance(number, str):
            text, number = number.encode(), 0
        names = b"".join(_NAME.pack(len(n)) + n for n in (name.encode() for name in request._outputs))
        parameters = request._parameters.encode() if request._parameters != "{}" else b""
        begin = writer.begin(_REQUEST.size)
        writer.add(identity + text + names + parameters)
        writer.pad()
        self.tensors(writer, request._inputs)
        writer.end(
            begin, _REQUEST, request._flags & 3, 0, number, request._timeout, request._priority, 0xFFFFFFFF,
            len(identity), len(text), len(request._inputs), len(request._outputs), len(names), len(parameters), 0, 0,
        )  # fmt: skip


class Writer:
    """Builds a body: first the records, then the data in the frame."""

    __slots__ = ("_parts", "_at", "_data", "inline", "keep", "up", "lent")

    def __init__(self, lent=False):
        self._parts, self._at, self._data, self.inline, self.keep, self.up = [], 0, [], 0, [], []
        self.lent = lent

    def add(self, part):
        self._parts.append(part)
        self._at += len(part)

    def pad(self):
        rest = -self._at & 7
        if rest:
            self.add(_ZEROS[:rest])

    def begin(self, size):
        """Reserves room for a record's fixed part."""
        self._parts.append(size)
        self._at += size
        return len(self._parts) - 1, self._at - size

    def end(self, begin, layout, *values):
        index, at = begin
        self._parts[index] = layout.pack(self._at - at, *values)

    def tensor(self, length, signature, place, offset, size, data):
        record = 24 + len(signature)
        if data is None:
            self.add(_TENSOR.pack(record, length, place, 0, offset, size) + signature)
            if place == IN_UP:
                self.up.append(offset)
            return
        # finish writes its offset, which is known when all records are complete.
        self._data.append((len(self._parts), record, length, signature, size, data))
        self._parts.append(None)
        self._at += record

    def finish(self):
        at = self._at
        parts = self._parts
        for index, record, length, signature, size, data in self._data:
            gap = -at & 15
            if gap:
                parts.append(_ZEROS[:gap])
                at += gap
            parts[index] = _TENSOR.pack(record, length, IN_FRAME, 0, at, size) + signature
            parts.append(data)
            at += size
        return b"".join(parts)
