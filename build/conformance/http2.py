"""A minimal HTTP/2 client that sends what no library would. It has no flow control."""

import contextlib
import socket
import struct

DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
INITIAL_WINDOW = 4
INFER = "/inference.GRPCInferenceService/ModelInfer"
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
LIVE = "/inference.GRPCInferenceService/ServerLive"


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def settings(*pairs):
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", k, v) for k, v in pairs))


def header_block(path, **fields):
    """A header block of literals without Huffman coding. Underscores in names stand for hyphens."""
    all_fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "x",
                  "content-type": "application/grpc", "te": "trailers",
                  **{k.replace("_", "-"): v for k, v in fields.items()}}
    out = b""
    for name, value in all_fields.items():
        out += b"\x00" + _string(name) + _string(value)
    return out


def _string(text):
    raw = text.encode()
    if len(raw) < 127:
        return bytes([len(raw)]) + raw
    rest, head = len(raw) - 127, b"\x7f"
    while rest >= 128:
        head, rest = head + bytes([rest % 128 + 128]), rest // 128
    return head + bytes([rest]) + raw


def headers(stream, path, flags=0, **fields):
    """The frame that opens a call."""
    return frame(HEADERS, flags | END_HEADERS, stream, header_block(path, **fields))


class Connection:
    """A connection whose preface and settings have been sent."""

    def __init__(self, address, preface=True, window=None, timeout=120):
        host, port = address.rsplit(":", 1)
        self.sock = socket.create_connection((host, int(port)), timeout)
        self.buffer, self.next = b"", 1
        if preface:
            self.send(PREFACE, settings(*([(INITIAL_WINDOW, window)] if window is not None else [])))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def send(self, *parts):
        self.sock.sendall(b"".join(parts))

    def open(self, path, flags=0, **fields):
        """Opens a call and returns its stream."""
        stream, self.next = self.next, self.next + 2
        self.send(headers(stream, path, flags, **fields))
        return stream

    def message(self, stream, content, compressed=False, end=True, piece=16 << 10):
        """Sends a gRPC message as DATA frames. The content must fit in the server's windows."""
        data = struct.pack(">BI", compressed, len(content)) + content
        for at in range(0, len(data), piece):
            last = end and at + piece >= len(data)
            self.send(frame(DATA, END_STREAM if last else 0, stream, data[at:at + piece]))

    def read(self):
        """Returns the next frame as (kind, flags, stream, payload), None at the end of the connection."""
        while len(self.buffer) < 9 or len(self.buffer) < 9 + int.from_bytes(self.buffer[:3], "big"):
            try:
                more = self.sock.recv(1 << 16)
            except ConnectionError:
                more = b""
            if not more:
                return None
            self.buffer += more
        size = int.from_bytes(self.buffer[:3], "big")
        kind, flags, stream = struct.unpack(">BBI", self.buffer[3:9])
        payload, self.buffer = self.buffer[9:9 + size], self.buffer[9 + size:]
        return kind, flags, stream, payload

    def until(self, wanted):
        """Reads frames until one satisfies wanted(kind, flags, stream, payload). Returns it, or None at the end."""
        while (f := self.read()) is not None:
            if f[0] == SETTINGS and not f[1] & ACK:
                with contextlib.suppress(OSError):  # the server may have closed the connection after its last frame
                    self.send(frame(SETTINGS, ACK, 0))
            if wanted(*f):
                return f
        return None

    def result(self, stream):
        """Waits for the end of a call. Returns the bytes of its last headers, None if the connection ended."""
        f = self.until(lambda kind, flags, s, _: s == stream and (
            kind == RESET or kind == HEADERS and flags & END_STREAM))
        return f and f[3]

    def ended(self):
        """Waits for the end of the connection. Returns the payload of the last GOAWAY."""
        last = [b""]
        self.until(lambda kind, flags, s, payload: last.__setitem__(0, payload) if kind == GOAWAY else None)
        return last[0]
