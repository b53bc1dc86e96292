"""The little of ZeroMQ that a client needs, through libzmq itself: nothing has to be installed beside it."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import sys
import time
from collections.abc import Iterator

DEALER, PUB, SUB, PAIR = 5, 1, 2, 0
POLLIN, POLLOUT = 1, 2
DONTWAIT = 1
ROUTING_ID, SUBSCRIBE, LINGER, RECONNECT_IVL, RECONNECT_IVL_MAX, IMMEDIATE, FD, EVENTS, RCVMORE = 5, 6, 17, 18, 21, 39, 14, 15, 13
CURVE_PUBLICKEY, CURVE_SECRETKEY, CURVE_SERVERKEY = 48, 49, 50
EVENT_CONNECTED, EVENT_HANDSHAKE_SUCCEEDED = 0x0001, 0x1000
EVENT_HANDSHAKE_FAILED_NO_DETAIL, EVENT_HANDSHAKE_FAILED_PROTOCOL, EVENT_HANDSHAKE_FAILED_AUTH = 0x0800, 0x2000, 0x4000


class ZMQError(OSError):
    """What libzmq says went wrong."""


class Again(ZMQError):
    """Nothing can be sent or received just now."""


class _PollItem(ctypes.Structure):
    _fields_ = [("socket", ctypes.c_void_p), ("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short)]


class _Msg(ctypes.Structure):
    _fields_ = [("_", ctypes.c_ulonglong * 8)]  # zmq_msg_t: 64 bytes, aligned to pointers


_FUNCTIONS = {
    "zmq_ctx_new": (ctypes.c_void_p, []),
    "zmq_ctx_term": (ctypes.c_int, [ctypes.c_void_p]),
    "zmq_socket": (ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_int]),
    "zmq_close": (ctypes.c_int, [ctypes.c_void_p]),
    "zmq_connect": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p]),
    "zmq_setsockopt": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]),
    "zmq_getsockopt": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)]),
    "zmq_send": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]),
    "zmq_poll": (ctypes.c_int, [ctypes.POINTER(_PollItem), ctypes.c_int, ctypes.c_long]),
    "zmq_errno": (ctypes.c_int, []),
    "zmq_strerror": (ctypes.c_char_p, [ctypes.c_int]),
    "zmq_msg_init": (ctypes.c_int, [ctypes.POINTER(_Msg)]),
    "zmq_msg_recv": (ctypes.c_int, [ctypes.POINTER(_Msg), ctypes.c_void_p, ctypes.c_int]),
    "zmq_msg_data": (ctypes.c_void_p, [ctypes.POINTER(_Msg)]),
    "zmq_msg_size": (ctypes.c_size_t, [ctypes.POINTER(_Msg)]),
    "zmq_msg_close": (ctypes.c_int, [ctypes.POINTER(_Msg)]),
    "zmq_socket_monitor": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]),
    "zmq_curve_public": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_char_p]),
}
_library = None


def _zmq() -> ctypes.CDLL:
    global _library
    if _library is None:
        try:
            library = ctypes.CDLL("libzmq.so.5")
        except OSError as error:
            raise ZMQError(errno.ENOENT, f"libzmq.so.5 cannot be loaded (Debian: libzmq5): {error}") from error
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        _library = library
    return _library


def _failed() -> ZMQError:
    code = _zmq().zmq_errno()
    return (Again if code == errno.EAGAIN else ZMQError)(code, _zmq().zmq_strerror(code).decode())


def _check(result: int) -> int:
    if result < 0:
        raise _failed()
    return result


def curve_public(secret: bytes) -> bytes:
    to = ctypes.create_string_buffer(41)
    _check(_zmq().zmq_curve_public(to, secret))
    return to.value


class _Turns(ctypes.Structure):  # sched_attr of the kernel, in its first version
    _fields_ = [("size", ctypes.c_uint32), ("policy", ctypes.c_uint32), ("flags", ctypes.c_uint64), ("nice", ctypes.c_int32),
                ("priority", ctypes.c_uint32), ("runtime", ctypes.c_uint64), ("deadline", ctypes.c_uint64), ("period", ctypes.c_uint64)]


# system calls that neither Python nor older C libraries have: sched_getattr, sched_setattr
_SCHED_ATTR = {"x86_64": (315, 314), "aarch64": (275, 274), "riscv64": (275, 274)}
_SHORT_TURN_NS = 100_000  # the shortest that the kernel gives


@contextlib.contextmanager
def _short_turns() -> Iterator[None]:
    """Threads that are started herein have short turns on a processor where the caller is an ordinary thread: they are let in
    soon after they wake, also beside busy threads. As in lib/base/turns.h; elsewhere nothing changes."""
    callers = _Turns()
    read, write = _SCHED_ATTR.get(platform.machine() if sys.maxsize > 2**32 else "", (0, 0))
    call = ctypes.CDLL(None).syscall
    ordinary = read and call(read, 0, ctypes.byref(callers), ctypes.sizeof(callers), 0) == 0 and callers.policy == os.SCHED_OTHER
    if ordinary:
        call(write, 0, ctypes.byref(_Turns(size=ctypes.sizeof(_Turns), nice=callers.nice, runtime=_SHORT_TURN_NS)), 0)
    try:
        yield
    finally:
        if ordinary:
            call(write, 0, ctypes.byref(callers), 0)


class Socket:
    """One socket of a context."""

    def __init__(self, context: Context, kind: int) -> None:
        self._context = context
        self._socket = _zmq().zmq_socket(context.handle, kind)
        if not self._socket:
            raise _failed()

    def set(self, option: int, value: int | bytes) -> None:
        if isinstance(value, bytes):
            _check(_zmq().zmq_setsockopt(self._socket, option, value, len(value)))
        else:
            number = ctypes.c_int(value)
            _check(_zmq().zmq_setsockopt(self._socket, option, ctypes.byref(number), ctypes.sizeof(number)))

    def get(self, option: int) -> int:
        number, size = ctypes.c_int(), ctypes.c_size_t(ctypes.sizeof(ctypes.c_int))
        _check(_zmq().zmq_getsockopt(self._socket, option, ctypes.byref(number), ctypes.byref(size)))
        return number.value

    def connect(self, endpoint: str) -> None:
        _check(_zmq().zmq_connect(self._socket, endpoint.encode()))

    def send(self, data: bytes) -> None:
        """Again when it would have to wait."""
        _check(_zmq().zmq_send(self._socket, data, len(data), DONTWAIT))

    def recv(self) -> list[bytes]:
        """The frames of a message; Again when there is none."""
        frames = []
        while True:
            message = _Msg()
            _check(_zmq().zmq_msg_init(ctypes.byref(message)))
            try:
                _check(_zmq().zmq_msg_recv(ctypes.byref(message), self._socket, DONTWAIT))
                data, size = _zmq().zmq_msg_data(ctypes.byref(message)), _zmq().zmq_msg_size(ctypes.byref(message))
                frames.append(ctypes.string_at(data, size) if size else b"")
            finally:
                _zmq().zmq_msg_close(ctypes.byref(message))
            if not self.get(RCVMORE):
                return frames

    def poll(self, seconds: float, events: int = POLLIN) -> bool:
        """Whether it can receive (or send) within so many seconds."""
        until = time.monotonic() + seconds
        while True:
            item = _PollItem(self._socket, 0, events, 0)
            left = max(0.0, until - time.monotonic())
            # rounded up: not to turn around many times within the last millisecond
            count = _zmq().zmq_poll(ctypes.byref(item), 1, int(1e3 * left) + (left > 0))
            if count < 0 and _zmq().zmq_errno() != errno.EINTR:
                raise _failed()
            if count > 0:
                return True
            if count == 0 and time.monotonic() >= until:
                return False

    def monitor(self, events: int) -> Socket:
        """A socket that tells how attempts to connect end."""
        endpoint = f"inproc://monitor-{id(self)}"
        _check(_zmq().zmq_socket_monitor(self._socket, endpoint.encode(), events))
        watch = Socket(self._context, PAIR)
        watch.connect(endpoint)
        return watch

    def close(self) -> None:
        if self._socket:
            _zmq().zmq_socket_monitor(self._socket, None, 0)
            _zmq().zmq_close(self._socket)
            self._socket = None


class Context:
    """Where sockets live."""

    def __init__(self) -> None:
        self.handle = _zmq().zmq_ctx_new()
        with _short_turns():  # the first socket starts the thread that carries our messages
            _zmq().zmq_close(_zmq().zmq_socket(self.handle, PAIR))

    @property
    def closed(self) -> bool:
        return not self.handle

    def term(self) -> None:
        if self.handle:
            _zmq().zmq_ctx_term(self.handle)
            self.handle = None
