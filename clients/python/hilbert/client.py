"""Give hilbertd telemetry, ask it for actions. The contract is proto/hilbert.proto; the verbs are those of the C client.

No call waits longer than its time-out. The connection comes back by itself when the daemon does: after an error, call
again. A client belongs to one thread. Vectors are lists, tuples or numpy arrays of numbers, in physical units and the
model's order; what comes back is lists. Everything that goes wrong is an Error.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import zmq
from google.protobuf.message import DecodeError
from zmq.utils.monitor import recv_monitor_message

from . import hilbert_pb2 as pb

__all__ = ["Client", "Reply", "Status", "Error", "Invalid", "NotConnected", "TimedOut", "Refused"]

# events of a monitor
_CONNECTED, _SUCCEEDED, _REFUSED = zmq.EVENT_CONNECTED, zmq.EVENT_HANDSHAKE_SUCCEEDED, zmq.EVENT_HANDSHAKE_FAILED_AUTH
_FAILED = zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL

Vector = Iterable[float]  #: a list, a tuple, a numpy array


class Error(Exception):
    """Anything that went wrong between us and the daemon."""


class Invalid(Error, ValueError):
    """An argument that cannot be used: the text names it."""


class NotConnected(Error):
    """There was no daemon to ask within the time-out."""


class TimedOut(Error):
    """No answer came within the time-out."""


class Refused(Error):
    """The daemon said no to a control request; the text says why."""


class Status(enum.IntEnum):
    """How good an action is, from best to worst."""

    CONVERGED = pb.ACTION_STATUS_CONVERGED  #: by the model, less than 1.5 % of the cost is left to gain
    TRUNCATED = pb.ACTION_STATUS_TRUNCATED  #: the best plan so far: the reason says what ended it
    WARMING_UP = pb.ACTION_STATUS_WARMING_UP  #: too few samples: the average model was used
    OUT_OF_SPAN = pb.ACTION_STATUS_OUT_OF_SPAN  #: the vehicle behaves as no trained dynamics do
    STALE = pb.ACTION_STATUS_STALE  #: telemetry is old
    FALLBACK = pb.ACTION_STATUS_FALLBACK  #: no plan was made: the last plan shifted, then the safe action
    REFUSED = pb.ACTION_STATUS_REFUSED  #: the request could not be answered: see the reason
    LIMITED = pb.ACTION_STATUS_LIMITED  #: the best plan breaks a limit of the configuration; better than warming-up
    UNKNOWN = -1  #: of a daemon that is newer than this client

    @classmethod
    def _missing_(cls, value: object) -> Status:
        return cls.UNKNOWN

    @property
    def planned(self) -> bool:
        """A plan from the given state stands behind the action: every status but fallback and refused."""
        return self not in (Status.FALLBACK, Status.REFUSED, Status.UNKNOWN)


@dataclasses.dataclass(frozen=True)
class Reply:
    """An answer to a request."""

    status: Status
    reason: str  #: of refused, fallback and truncated: "late", "not-finite", ...; else "none"
    detail: str  #: a refusal in words
    action: list[float]  #: within bounds; empty when the request never reached the planner
    cost: float
    iterations: int
    queue: float  #: seconds in the daemon: waiting,
    planning: float  #: planning,
    total: float  #: and from receipt to reply
    preparing: float  #: seconds spent on it before the request came,
    prepare_stages: int  #: in so many stages
    corrected: bool  #: the plan began with what was prepared then
    coefficient_version: int
    coefficient_age: float  #: seconds since the newest sample behind the coefficients; may be infinite
    health: pb.Health
    plan: list[list[float]]  #: with want_plan: a row of controls for each step
    predicted: list[list[float]]  #: with want_plan: a row of states for each step, and the last
    limit: str = ""  #: the configured limit that the plan breaks most
    guest: bool = False  #: another client flies: this was planned from nothing, and moved nothing
    fault: str = "none"  #: what is wrong with telemetry just now: "not-finite", "frozen", "behind", "implausible", ...


def _vector(name: str, values: Vector | None) -> list[float]:
    """Numbers of any iterable, flat; None is none."""
    if values is None:
        return []
    try:
        return [float(v) for v in values]
    except (TypeError, ValueError) as error:
        raise Invalid(f"{name}: expected a flat list of numbers, not {_short(values)}") from error


def _table(name: str, rows: Iterable[Vector]) -> list[list[float]]:
    """Rows of numbers, all of the same length."""
    try:
        table = [_vector(name, row) for row in rows]
    except TypeError as error:
        raise Invalid(f"{name}: expected rows of numbers, not {_short(rows)}") from error
    if len({len(row) for row in table}) > 1:
        raise Invalid(f"{name}: the rows are not of the same length")
    return table


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 60 else text[:57] + "..."


@contextmanager
def _errors_of_ours():
    """Errors of ZeroMQ, of files and of arguments that protobuf refuses, as ours."""
    try:
        yield
    except Error:
        raise
    except zmq.Again as error:
        raise NotConnected("no daemon takes what is sent: is hilbertd running?") from error
    except DecodeError as error:
        raise Error(f"the answer cannot be understood: {error}") from error
    except (zmq.ZMQError, OSError) as error:
        raise Error(str(error)) from error
    except (TypeError, ValueError, OverflowError) as error:
        raise Invalid(str(error)) from error


def _rows(flat: Sequence[float], width: int) -> list[list[float]]:
    return [list(flat[i : i + width]) for i in range(0, len(flat), width)] if width else []


def _word(kind, value: int, prefix: str) -> str:
    """An enumeration's value as the command line spells it."""
    name = kind.Name(value) if value in kind.values() else f"{prefix}{value}"
    return name.removeprefix(prefix).lower().replace("_", "-")


def _reply(m: pb.ActionReply, nx: int, nu: int) -> Reply:
    return Reply(
        status=Status(m.status),
        reason=_word(pb.Reason, m.reason, "REASON_"),
        detail=m.detail,
        action=list(m.action),
        cost=m.cost,
        iterations=m.iterations,
        queue=1e-6 * m.queue_us,
        planning=1e-6 * m.planning_us,
        total=1e-6 * m.total_us,
        preparing=1e-6 * m.preparing_us,
        prepare_stages=m.prepare_stages,
        corrected=m.corrected,
        guest=m.guest,
        coefficient_version=m.coefficient_version,
        coefficient_age=m.coefficient_age,
        health=m.health,
        plan=_rows(m.plan, nu),
        predicted=_rows(m.predicted, nx),
        limit=m.limit,
        fault=_word(pb.Reason, m.health.fault or pb.REASON_NONE, "REASON_"),
    )


def _read_key(path: str | os.PathLike[str]) -> bytes:
    with _errors_of_ours(), open(path, "rb") as file:
        key = file.readline().strip()
    if len(key) != 40:
        raise Error(f"{path}: not a key: expected one line of 40 characters as hilbertctl keygen writes it")
    return key


class Client:
    """A connection to one daemon. Use it in a `with`, or call close()."""

    def __init__(
        self,
        folder: str = "/run/hilbertd",
        *,
        telemetry: str | None = None,
        actions: str | None = None,
        control: str | None = None,
        status: str | None = None,
        server_key: str | os.PathLike[str] | None = None,
        client_key: str | os.PathLike[str] | None = None,
        timeout: float = 1.0,
        connect_timeout: float = 1.0,
        name: str | None = None,
        lockstep: bool = False,
    ) -> None:
        """Endpoints default to the ipc sockets in `folder`; keys (both or none) are files, for tcp.

        By `name` the daemon's security.pilot tells the client that flies.

        `lockstep` is for simulators, with a daemon whose latency.clock is vehicle: time is the vehicle's, and stands
        still until a request is answered. What is published goes with the next request, which is answered once it was
        learned from. The same flight then gives the same replies, whatever this machine and its load.

        The first request waits up to `connect_timeout` seconds for the daemon, if that is longer than its own time-out.
        """
        if (server_key is None) != (client_key is None):
            raise Error("CURVE needs both server_key and client_key")
        self.timeout = timeout
        self.connect_timeout = connect_timeout
        self._name = name
        self._lockstep = lockstep
        self._carried: list[pb.Telemetry] = []  # samples for the next request
        self._keys = (_read_key(server_key), _read_key(client_key)) if server_key and client_key else None
        self._endpoint = {
            "telemetry": telemetry or f"ipc://{folder}/telemetry",
            "actions": actions or f"ipc://{folder}/actions",
            "control": control or f"ipc://{folder}/control",
            "status": status or f"ipc://{folder}/status",
        }
        self._context = zmq.Context()
        self._socket: dict[str, zmq.Socket] = {}
        self._watch: dict[str, zmq.Socket] = {}  # monitors of handshakes, over tcp
        self._seen: dict[str, int] = {}  # what they saw
        self._sequence = 0
        self._id = 0

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for socket in self._socket.values():
            socket.disable_monitor()
            socket.close(linger=0)
        self._socket.clear()
        for watch in self._watch.values():
            watch.close(linger=0)
        self._watch.clear()
        self._context.term()

    # ---- telemetry ----

    def publish(self, time_us: int, state: Vector, control: Vector, reset_counter: int = 0) -> None:
        """The state at a moment, and the control in force from then on.

        Never waits; lost while the daemon is away. In lock-step none is lost: it is kept for the next request.
        """
        self._sequence += 1
        with _errors_of_ours():
            m = pb.Telemetry(
                time_us=int(time_us),
                state=_vector("state", state),
                control=_vector("control", control),
                sequence=self._sequence,
                reset_counter=int(reset_counter),
            )
            if self._lockstep:
                self._carried.append(m)
            else:
                self._open("telemetry", zmq.PUB).send(m.SerializeToString(), zmq.NOBLOCK)

    # ---- actions ----

    def request(
        self,
        time_us: int,
        state: Vector,
        *,
        target: Vector | None = None,
        target_time: Vector | None = None,
        applied: Vector | None = None,
        budget: float = 0.0,
        want_plan: bool = False,
        reset_counter: int = 0,
        timeout: float | None = None,
    ) -> Reply:
        """The action to apply now. `applied` is the control really applied since the last request.

        `target` is a state, or the states of a whole trajectory one after the other (a 2-D array will do): a step of
        the plan apart, or, with `target_time`, each at so many seconds after `time_us`.
        """
        until = time.monotonic() + (self.timeout if timeout is None else timeout)
        self._id += 1
        with _errors_of_ours():
            flat = getattr(target, "ravel", None)  # of numpy's arrays
            x = _vector("state", state)
            m = pb.ActionRequest(
                id=self._id,
                time_us=int(time_us),
                state=x,
                target=_vector("target", flat() if flat else target),
                target_time=_vector("target_time", target_time),
                applied=_vector("applied", applied),
                budget_us=math.ceil(1e6 * budget),
                want_plan=bool(want_plan),
                reset_counter=int(reset_counter),
                lockstep=self._lockstep,
                telemetry=self._carried,
            )
            reply = self._exchange("actions", m, pb.ActionReply(), until)
            return _reply(reply, len(x), len(reply.action))

    # ---- control ----

    def status(self) -> pb.Status:
        """What the daemon tells about itself."""
        return self._command(get_status=pb.Nothing()).status

    def model(self) -> pb.ModelInfo:
        """The model in use: names, units and bounds of states and controls."""
        return self._command(get_model=pb.Nothing()).model

    def reset_window(self) -> None:
        """Forget the window and the coefficients."""
        self._command(reset_window=pb.Nothing())

    def set_target(self, state: Vector) -> None:
        """Of requests that name none, until the file has another target than before."""
        self._command(set_target=pb.Target(state=_vector("target", state)))

    def reload(self) -> list[str]:
        """Have the configuration read again; returns the keys that hold only after a restart."""
        return list(self._command(reload=pb.Nothing()).needs_restart)

    def promote(self) -> None:
        """Has the shadow's model fly from the next request on; the one in use becomes the shadow."""
        self._command(promote=pb.Nothing())

    def coefficients(self) -> pb.Coefficients:
        """What the vehicle has taught the daemon, to be kept and given back by set_coefficients.

        `value` is the mean and `variance` the variance of each coefficient; `covariance` is the lower triangle of the
        whole covariance, row by row (with per-state coefficients one triangle for each state).
        """
        return self._command(get_coefficients=pb.Nothing()).coefficients

    def set_coefficients(self, coefficients: pb.Coefficients) -> None:
        """Use these until the window is warm."""
        self._command(set_coefficients=coefficients)

    def predict(
        self, states: Iterable[Vector], controls: Iterable[Iterable[Vector]], dt: float = 0.0
    ) -> list[list[list[float]]]:
        """Trajectories from each state with its own sequence of controls, by the model with its present coefficients."""
        start = _table("states", states)
        try:
            sequences = [_table("controls", sequence) for sequence in controls]
        except TypeError as error:
            raise Invalid(f"controls: expected a sequence for each state, not {_short(controls)}") from error
        steps = len(sequences[0]) if sequences else 0
        if not start:
            raise Invalid("states: expected at least one")
        if len(sequences) != len(start) or any(len(sequence) != steps for sequence in sequences):
            raise Invalid(f"controls: expected {len(start)} sequences of the same length, one for each state")
        with _errors_of_ours():
            m = pb.Predict(count=len(start), steps=steps, dt=dt)
        for state in start:
            m.state.extend(state)
        for sequence in sequences:
            for control in sequence:
                m.control.extend(control)
        rows = _rows(self._command(predict=m).prediction.state, len(start[0]))
        return [rows[i * (steps + 1) : (i + 1) * (steps + 1)] for i in range(len(start))]

    # ---- status ----

    def watch(self, timeout: float | None = None) -> Iterator[pb.Status]:
        """The published states, one after the other; TimedOut when none comes for `timeout` seconds."""
        wait = self.timeout if timeout is None else timeout
        with _errors_of_ours():
            socket = self._open("status", zmq.SUB)
            socket.setsockopt(zmq.SUBSCRIBE, b"hilbert.v1.Status")
        while True:
            with _errors_of_ours():
                if not socket.poll(int(1e3 * wait)):
                    raise TimedOut(f"{self._endpoint['status']}: no state was published within {wait} s")
                frames = socket.recv_multipart()
                status = pb.Status.FromString(frames[1]) if len(frames) > 1 else None
            if status is None:
                raise Error(f"{self._endpoint['status']}: a message of one frame is no state: is it hilbertd's status socket?")
            yield status

    # ---- sockets ----

    def _open(self, name: str, kind: int) -> zmq.Socket:
        if name in self._socket:
            return self._socket[name]
        if self._context.closed:
            raise Error("this client is closed")
        socket = self._context.socket(kind)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RECONNECT_IVL, 10)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 50)
        if kind == zmq.DEALER:
            socket.setsockopt(zmq.IMMEDIATE, 1)  # questions do not pile up for a daemon that is not there
        if name == "actions" and self._name:
            socket.setsockopt(zmq.ROUTING_ID, self._name.encode())
        if self._keys:
            socket.curve_serverkey, socket.curve_secretkey = self._keys
            socket.curve_publickey = zmq.curve_public(self._keys[1])
        if kind == zmq.DEALER and self._endpoint[name].startswith("tcp://"):
            self._watch[name] = socket.get_monitor_socket(_CONNECTED | _SUCCEEDED | _REFUSED | _FAILED)
        try:
            socket.connect(self._endpoint[name])
        except zmq.ZMQError as error:
            socket.close()
            raise Error(f"{self._endpoint[name]}: {error}") from error
        self._socket[name] = socket
        return socket

    def _advice(self, name: str) -> str:
        """Why there is no connection, from how the attempts at one have ended."""
        seen, watch = self._seen.get(name, 0), self._watch.get(name)
        while watch and watch.poll(0):
            seen |= recv_monitor_message(watch)["event"]
        self._seen[name] = seen
        if seen & _REFUSED:
            return (
                "the daemon refuses our key: is our public key among its security.client_keys, or in its "
                "security.authorized_keys with the right to this socket?"
            )
        if seen & (_CONNECTED | _FAILED) and not seen & _SUCCEEDED:
            if self._keys:
                return "somebody listens there, but not with this server key: is it the daemon's public key?"
            return "somebody listens there, but wants keys: give server_key and client_key"
        return "is hilbertd running?"

    def _exchange(self, name: str, request: pb.ActionRequest | pb.ControlRequest, reply, until: float):
        first = name not in self._socket
        socket = self._open(name, zmq.DEALER)
        if first:
            begun = time.monotonic()
            if socket.poll(max(0, math.ceil(1e3 * self.connect_timeout)), zmq.POLLOUT):
                until += time.monotonic() - begun  # connecting does not count
        if not socket.poll(max(0, math.ceil(1e3 * (until - time.monotonic()))), zmq.POLLOUT):
            raise NotConnected(f"no daemon at {self._endpoint[name]}: {self._advice(name)}")
        socket.send(request.SerializeToString(), zmq.NOBLOCK)
        if name == "actions":
            self._carried = []
        while socket.poll(max(0, math.ceil(1e3 * (until - time.monotonic())))):
            reply.ParseFromString(socket.recv())
            # an answer to an old question is dropped; one without id answers a request that could not be read
            if reply.id in (request.id, 0):
                return reply
        raise TimedOut(f"no answer from {self._endpoint[name]} in time")

    def _command(self, **command) -> pb.ControlReply:
        self._id += 1
        with _errors_of_ours():
            request = pb.ControlRequest(id=self._id, **command)
            reply = self._exchange("control", request, pb.ControlReply(), time.monotonic() + self.timeout)
        if not reply.ok:
            raise Refused(reply.error)
        return reply
