"""The little of Protocol Buffers that the wire needs (proto3): plain objects to bytes and back, without a library."""

from __future__ import annotations

import dataclasses
import enum
import struct
import sys
from typing import ClassVar, TypeVar

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_WIRE = {"double": _FIXED64, "float": _FIXED32, "fixed64": _FIXED64, "string": _LENGTH, "bytes": _LENGTH,
         "int64": _VARINT, "uint64": _VARINT, "uint32": _VARINT, "bool": _VARINT}
_PACK = {"double": "<d", "float": "<f", "fixed64": "<Q"}
_RANGE = {"int64": (-(2**63), 2**63 - 1), "uint64": (0, 2**64 - 1), "uint32": (0, 2**32 - 1), "fixed64": (0, 2**64 - 1)}

T = TypeVar("T", bound="Message")


class DecodeError(ValueError):
    """Bytes that are no message."""


class Word(enum.IntEnum):
    """An enumeration that prints as the command line spells it: warming-up."""

    def __str__(self) -> str:
        return self.name.lower().replace("_", "-")

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


@dataclasses.dataclass
class Message:
    """What all messages can: turn into bytes, and back."""

    _FIELDS: ClassVar[dict] = {}

    def to_bytes(self) -> bytes:
        out = bytearray()
        for number, (name, kind, repeated) in self._FIELDS.items():
            value = getattr(self, name)
            if repeated:
                _write_repeated(out, number, name, kind, value)
            elif value is not None:
                _write_one(out, number, name, kind, value, getattr(type(self), name, 0) is None)
        return bytes(out)

    @classmethod
    def from_bytes(cls: type[T], data: bytes) -> T:
        """DecodeError when these are none of it. Fields that are not known are passed over."""
        message, at = cls(), 0
        try:
            while at < len(data):
                key, at = _read_varint(data, at)
                number, wire = key >> 3, key & 7
                at = _read_field(message, cls._FIELDS.get(number), wire, data, at)
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise DecodeError(str(error)) from error
        return message


def _class(of: type, kind: str):
    return getattr(sys.modules[of.__module__], kind)


def _enum(kind: str, module: str, value: int):
    """The member, or the number itself where it is newer than this client."""
    try:
        return getattr(sys.modules[module], kind)(value)
    except ValueError:
        return value


# ---- writing ----


def _write_varint(out: bytearray, value: int) -> None:
    value &= 2**64 - 1
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _number(name: str, kind: str, value) -> int:
    low, high = _RANGE.get(kind, (-(2**31), 2**31 - 1))
    if not low <= value <= high:
        raise ValueError(f"{name}: {value} is outside of {low} to {high}")
    return int(value)


def _write_one(out: bytearray, number: int, name: str, kind: str, value, explicit: bool) -> None:
    """Zero is what is meant when nothing is there, unless it is one of several that say which it is (explicit); an empty
    message says that it is there."""
    if isinstance(value, Message):
        body = value.to_bytes()
        _write_varint(out, number << 3 | _LENGTH)
        _write_varint(out, len(body))
        out += body
    elif kind in _PACK:
        value = float(value) if kind != "fixed64" else _number(name, kind, value)
        body = struct.pack(_PACK[kind], value)
        if any(body) or explicit:
            _write_varint(out, number << 3 | _WIRE[kind])
            out += body
    elif kind in ("string", "bytes"):
        body = value.encode() if kind == "string" else bytes(value)
        if body or explicit:
            _write_varint(out, number << 3 | _LENGTH)
            _write_varint(out, len(body))
            out += body
    elif value or explicit:
        _write_varint(out, number << 3 | _VARINT)
        _write_varint(out, _number(name, kind, value))


def _write_repeated(out: bytearray, number: int, name: str, kind: str, values: list) -> None:
    if not values:
        return
    if isinstance(values[0], (Message, str, bytes)):
        for value in values:
            body = value.to_bytes() if isinstance(value, Message) else value.encode() if isinstance(value, str) else value
            _write_varint(out, number << 3 | _LENGTH)
            _write_varint(out, len(body))
            out += body
        return
    body = bytearray()
    if kind in _PACK:
        body += struct.pack(f"<{len(values)}{_PACK[kind][1]}", *values)
    else:
        for value in values:
            _write_varint(body, _number(name, kind, value))
    _write_varint(out, number << 3 | _LENGTH)
    _write_varint(out, len(body))
    out += body


# ---- reading ----


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (2**64 - 1), at
    raise DecodeError("a number has more than ten bytes")


def _skip(wire: int, data: bytes, at: int) -> tuple[bytes, int]:
    """The bytes of a field, and where the next begins."""
    if wire == _VARINT:
        _, end = _read_varint(data, at)
    elif wire in (_FIXED64, _FIXED32):
        end = at + (8 if wire == _FIXED64 else 4)
    elif wire == _LENGTH:
        size, at = _read_varint(data, at)
        end = at + size
    else:
        raise DecodeError(f"no field has the wire type {wire}")
    if end > len(data):
        raise DecodeError("it ends within a field")
    return data[at:end], end


def _signed(kind: str, value: int) -> int:
    if kind == "uint32":
        return value & (2**32 - 1)
    return value - 2**64 if kind == "int64" and value >= 2**63 else value


def _values(message: Message, kind: str, wire: int, body: bytes) -> list:
    """The values of a field, of which a packed one has many."""
    if kind in ("string", "bytes"):
        return [body.decode() if kind == "string" else bytes(body)]
    if kind in _PACK:
        size = struct.calcsize(_PACK[kind])
        if len(body) % size:
            raise DecodeError("it ends within a number")
        return list(struct.unpack(f"<{len(body) // size}{_PACK[kind][1]}", body))
    known = _WIRE.get(kind)
    if known is None and isinstance(_class(type(message), kind), type) and issubclass(_class(type(message), kind), Message):
        return [_class(type(message), kind).from_bytes(body)]
    values, at = [], 0
    while at < len(body):
        value, at = _read_varint(body, at)
        if kind == "bool":
            values.append(bool(value))
        else:
            values.append(_signed(kind, value) if known is not None else _enum(kind, type(message).__module__, value))
    return values


def _read_field(message: Message, field, wire: int, data: bytes, at: int) -> int:
    body, end = _skip(wire, data, at)
    if field is None:
        return end
    name, kind, repeated = field
    expected = _WIRE.get(kind, _LENGTH if wire == _LENGTH else _VARINT)
    if wire != expected and not (repeated and wire == _LENGTH):
        raise DecodeError(f"{name} has the wire type {wire}")
    values = _values(message, kind, wire, body)
    if repeated:
        getattr(message, name).extend(values)
    elif values:
        setattr(message, name, values[-1])
    return end
