"""What a daemon recorded (MCAP), as arrays in one call.

    flight = hilbert.Recording.load("1.mcap")
    flight.time, flight.state, flight.control        # of telemetry
    flight.reply_time, flight.action, flight.status  # of replies
    flight.messages["status"]                        # everything else, as plain objects
"""

from __future__ import annotations

import ctypes
import os
import struct
from dataclasses import dataclass, field

from . import messages as pb
from ._codec import DecodeError, Message
from .client import Error, Status

__all__ = ["Recording"]

_MAGIC = b"\x89MCAP0\r\n"
_CHANNEL, _MESSAGE, _CHUNK, _DATA_END = 0x04, 0x05, 0x06, 0x0F
_TOPICS: dict[str, type[Message]] = {
    "recording": pb.Recording,
    "telemetry": pb.RecordedSample,
    "requests": pb.RecordedRequest,
    "replies": pb.RecordedReply,
    "coefficients": pb.RecordedCoefficients,
    "control": pb.RecordedControl,
    "changes": pb.RecordedChange,
    "status": pb.Status,
    "gaps": pb.RecordingGap,
}


def _decompress(kind: str, data: bytes, size: int) -> bytes:
    if kind == "":
        return data
    if kind != "zstd":
        raise Error(f"a chunk is compressed with {kind!r}: expected zstd or nothing")
    try:
        zstd = ctypes.CDLL("libzstd.so.1")
    except OSError as error:
        raise Error(f"libzstd.so.1 cannot be loaded (Debian: libzstd1): {error}") from error
    zstd.ZSTD_decompress.restype = ctypes.c_size_t
    zstd.ZSTD_decompress.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    to = ctypes.create_string_buffer(size or 1)
    if zstd.ZSTD_decompress(to, size, data, len(data)) != size:
        raise Error("a chunk cannot be decompressed")
    return to.raw[:size]


def _text(data: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from("<I", data, at)
    return data[at + 4 : at + 4 + size].decode(), at + 4 + size


def _records(data: bytes, at: int = 0):
    """(operation, content) of each; of a file that was cut off, those that are whole."""
    while at + 9 <= len(data):
        operation, size = struct.unpack_from("<BQ", data, at)
        if at + 9 + size > len(data):
            return
        yield operation, data[at + 9 : at + 9 + size]
        at += 9 + size


def _messages(data: bytes):
    """(topic, seconds, bytes) of a file, in its order."""
    topics: dict[int, str] = {}

    def of(records):
        for operation, content in records:
            if operation == _CHUNK:
                (size,) = struct.unpack_from("<Q", content, 16)
                kind, at = _text(content, 28)
                (length,) = struct.unpack_from("<Q", content, at)
                yield from of(_records(_decompress(kind, content[at + 8 : at + 8 + length], size)))
            elif operation == _CHANNEL:
                (channel,) = struct.unpack_from("<H", content)
                topics[channel] = _text(content, 4)[0]
            elif operation == _MESSAGE:
                channel, _, log_time = struct.unpack_from("<HIQ", content)
                yield topics.get(channel, ""), 1e-9 * log_time, content[22:]
            elif operation == _DATA_END:
                return

    yield from of(_records(data, len(_MAGIC)))


def _array(rows: list, kind=float):
    """numpy's where it is installed, else the list."""
    try:
        import numpy
    except ImportError:
        return rows
    return numpy.array(rows, dtype=kind)


@dataclass(repr=False)
class Recording:
    """A recorded flight. Times are seconds of the vehicle's clock since the first sample or request."""

    name: str = ""  #: of the daemon's instance
    model: str = ""  #: path of the model
    dt: float = 0.0  #: the model's period, seconds
    states: list[str] = field(default_factory=list)
    controls: list[str] = field(default_factory=list)
    time: object = None  #: n: of telemetry
    state: object = None  #: n x nx
    control: object = None  #: n x nu: in force from that time on
    reset: object = None  #: n: reset_counter
    reply_time: object = None  #: m: of the requests' states
    action: object = None  #: m x nu; NaN where there was none
    status: list[Status] = field(default_factory=list)  #: m
    cost: object = None  #: m
    latency: object = None  #: m: seconds from receipt to reply
    messages: dict[str, list] = field(default_factory=dict)  #: all of them by topic, as hilbert.messages
    log_time: dict[str, list[float]] = field(default_factory=dict)  #: and when each was written, Unix time in seconds

    def __post_init__(self) -> None:
        if self.name and not self.messages:
            raise TypeError("a recording is read by hilbert.Recording.load(path, ...)")

    def __repr__(self) -> str:
        n, m = (0 if times is None else len(times) for times in (self.time, self.reply_time))
        seconds = max([float(times[-1]) for times in (self.time, self.reply_time) if times is not None and len(times)], default=0.0)
        return f"<hilbert.Recording: {self.name}, {seconds:.1f} s, {n} samples, {m} replies>"

    @classmethod
    def load(cls, *paths: str | os.PathLike[str]) -> Recording:
        """One file, or those of a flight in their order. Of a file that was cut off, all that is whole is taken."""
        r = cls(messages={topic: [] for topic in _TOPICS}, log_time={topic: [] for topic in _TOPICS})
        for path in paths:
            try:
                with open(path, "rb") as file:
                    data = file.read()
            except OSError as error:
                raise Error(f"{os.fspath(path)}: {error.strerror}") from error
            if not data.startswith(_MAGIC):
                raise Error(f"{os.fspath(path)}: not a recording: expected an MCAP file")
            try:
                for topic, seconds, body in _messages(data):
                    if topic in _TOPICS:
                        r.messages[topic].append(_TOPICS[topic].from_bytes(body))
                        r.log_time[topic].append(seconds)
            except (DecodeError, struct.error, UnicodeDecodeError) as error:
                raise Error(f"{os.fspath(path)}: cannot be understood: {error}") from error
        if not r.messages["recording"]:
            raise Error(f"{os.fspath(paths[0]) if paths else 'no file'}: not a recording of hilbertd")
        r._take_arrays()
        return r

    def _take_arrays(self) -> None:
        head: pb.Recording = self.messages["recording"][0]
        self.name, self.model, self.dt = head.name, head.model, head.dt
        self.states = [channel.name for channel in head.state]
        self.controls = [channel.name for channel in head.control]
        samples = [sample.telemetry for sample in self.messages["telemetry"]]
        asked = {(r.request.id, round(1e6 * r.received)): r.request for r in self.messages["requests"]}
        nu = len(self.controls)
        replies = []
        for recorded in self.messages["replies"]:
            request = asked.get((recorded.reply.id, round(1e6 * recorded.received)))
            if request is not None:
                replies.append((request.time_us, recorded.reply))
        epoch = min([s.time_us for s in samples] + [t for t, _ in replies], default=0)
        none = [float("nan")] * nu
        self.time = _array([1e-6 * (s.time_us - epoch) for s in samples])
        self.state = _array([s.state for s in samples])
        self.control = _array([s.control for s in samples])
        self.reset = _array([s.reset_counter for s in samples], int)
        self.reply_time = _array([1e-6 * (t - epoch) for t, _ in replies])
        self.action = _array([reply.action or none for _, reply in replies])
        self.status = [Status(reply.status) for _, reply in replies]
        self.cost = _array([reply.cost for _, reply in replies])
        self.latency = _array([1e-6 * reply.total_us for _, reply in replies])
