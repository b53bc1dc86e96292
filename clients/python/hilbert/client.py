"""Give hilbertd telemetry, ask it for actions. The contract is proto/hilbert.proto; the verbs are those of the C client.

No call waits longer than its time-out. The connection comes back by itself when the daemon does: after an error, call
again. A client belongs to one thread; a Client that another thread is using says so. Vectors are lists, tuples or numpy arrays of numbers, in physical units and the
model's order; what comes back is lists and plain objects (hilbert.messages). Everything that goes wrong is an Error.

What a call does is written once, as a generator that yields what it waits for; Client waits in this thread, AsyncClient
in an event loop.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
import os
import threading
import time
from collections.abc import AsyncIterator, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager

from . import _zmq as zmq
from . import messages as pb
from ._codec import DecodeError, Message, Word

__all__ = ["AsyncClient", "Client", "Reply", "Status", "Error", "Invalid", "NotConnected", "TimedOut", "Refused"]

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


class Status(Word):
    """How good an action is, from best to worst."""

    CONVERGED = pb.ActionStatus.CONVERGED  #: by the model, less than 1.5 % of the cost is left to gain
    TRUNCATED = pb.ActionStatus.TRUNCATED  #: the best plan so far: the reason says what ended it
    WARMING_UP = pb.ActionStatus.WARMING_UP  #: too few samples: the average model was used
    OUT_OF_SPAN = pb.ActionStatus.OUT_OF_SPAN  #: the vehicle behaves as no trained dynamics do
    STALE = pb.ActionStatus.STALE  #: telemetry is old
    FALLBACK = pb.ActionStatus.FALLBACK  #: no plan was made: the last plan shifted, then the safe action
    REFUSED = pb.ActionStatus.REFUSED  #: the request could not be answered: see the reason
    LIMITED = pb.ActionStatus.LIMITED  #: the best plan breaks a limit, or bounds allow no trim; better than warming-up
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
    limit: str = ""  #: the configured limit that the plan breaks most, or "trim: CONTROL below BOUND"
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
    """Errors of ZeroMQ, of files and of answers, as ours."""
    try:
        yield
    except Error:
        raise
    except zmq.Again as error:
        raise NotConnected("no daemon takes what is sent: is hilbertd running?") from error
    except DecodeError as error:
        raise Error(f"the answer cannot be understood: {error}") from error
    except OSError as error:
        raise Error(error.strerror or str(error)) from error


@contextmanager
def _arguments():
    """What messages refuse, as ours."""
    try:
        yield
    except Error:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise Invalid(str(error)) from error


def _trajectory(target: Vector | Iterable[Vector] | None) -> list[float]:
    """A state, or the states of a trajectory one after the other, from lists, lists of lists and arrays."""
    flat = getattr(target, "ravel", None)  # of numpy's arrays
    if flat:
        return _vector("target", flat())
    rows = list(target) if isinstance(target, (list, tuple)) else None
    if rows and all(isinstance(row, (list, tuple)) or hasattr(row, "ravel") for row in rows):
        return [value for row in _table("target", rows) for value in row]
    return _vector("target", target)


def _rows(flat: Sequence[float], width: int) -> list[list[float]]:
    return [list(flat[i : i + width]) for i in range(0, len(flat), width)] if width else []


def _reply(m: pb.ActionReply, nx: int, nu: int) -> Reply:
    return Reply(
        status=Status(m.status),
        reason=str(m.reason),
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
        fault=str(m.health.fault or pb.Reason.NONE),
    )


def _read_key(path: str | os.PathLike[str]) -> bytes:
    with _errors_of_ours(), open(path, "rb") as file:
        key = file.readline().strip()
    if len(key) != 40:
        raise Error(f"{path}: not a key: expected one line of 40 characters as hilbertctl keygen writes it")
    return key


#: what a call waits for: a socket, what of it, and for how many seconds; it is told whether that came
_Wait = Generator["tuple[zmq.Socket, int, float]", bool, "object"]


class _Connection:
    """Sockets to one daemon, and the calls as generators."""

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
        with _errors_of_ours():
            self._context = zmq.Context()
        self._socket: dict[str, zmq.Socket] = {}
        self._watch: dict[str, zmq.Socket] = {}  # monitors of handshakes, over tcp
        self._seen: dict[str, int] = {}  # what they saw
        self._sequence = 0
        self._id = 0

    def _close(self) -> None:
        for socket in [*self._socket.values(), *self._watch.values()]:
            socket.close()
        self._socket.clear()
        self._watch.clear()
        self._context.term()

    # ---- telemetry ----

    def publish(self, time_us: int, state: Vector, control: Vector, reset_counter: int = 0) -> None:
        """The state at a moment, and the control in force from then on.

        Never waits; lost while the daemon is away. In lock-step none is lost: it is kept for the next request.
        """
        self._sequence += 1
        with _arguments():
            m = pb.Telemetry(
                time_us=int(time_us),
                state=_vector("state", state),
                control=_vector("control", control),
                sequence=self._sequence,
                reset_counter=int(reset_counter),
            )
            body = m.to_bytes()
        with _errors_of_ours():
            if self._lockstep and not self._context.closed:
                self._carried.append(m)
            else:
                self._open("telemetry", zmq.PUB).send(body)

    # ---- the calls ----

    def _request(self, time_us, state, target, target_time, applied, budget, want_plan, reset_counter, timeout) -> _Wait:
        until = time.monotonic() + (self.timeout if timeout is None else timeout)
        self._id += 1
        with _arguments():
            x = _vector("state", state)
            if not 0 <= budget < 4000:
                raise Invalid(f"budget: {budget} is not a number of seconds from 0 to 4000")
            m = pb.ActionRequest(
                id=self._id,
                time_us=int(time_us),
                state=x,
                target=_trajectory(target),
                target_time=_vector("target_time", target_time),
                applied=_vector("applied", applied),
                budget_us=math.ceil(1e6 * budget),
                want_plan=bool(want_plan),
                reset_counter=int(reset_counter),
                lockstep=self._lockstep,
                telemetry=self._carried,
            )
            body = m.to_bytes()
        reply = yield from self._exchange("actions", m.id, body, pb.ActionReply, until)
        return _reply(reply, len(x), len(reply.action))

    def _control(self, command: str, message: Message | None = None) -> _Wait:
        self._id += 1
        with _arguments():
            m = pb.ControlRequest(id=self._id, **{command: message or pb.Nothing()})
            body = m.to_bytes()
        reply = yield from self._exchange("control", m.id, body, pb.ControlReply, time.monotonic() + self.timeout)
        if not reply.ok:
            raise Refused(reply.error)
        return reply

    def _predict(self, states: Iterable[Vector], controls: Iterable[Iterable[Vector]], dt: float) -> _Wait:
        with _arguments():
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
            m = pb.Predict(count=len(start), steps=steps, dt=float(dt))
            m.state = [value for state in start for value in state]
            m.control = [value for sequence in sequences for control in sequence for value in control]
        reply = yield from self._control("predict", m)
        rows = _rows(reply.prediction.state, len(start[0]))
        return [rows[i * (steps + 1) : (i + 1) * (steps + 1)] for i in range(len(start))]

    def _next_status(self, wait: float) -> _Wait:
        with _errors_of_ours():
            if "status" not in self._socket:
                self._open("status", zmq.SUB).set(zmq.SUBSCRIBE, b"hilbert.v1.Status")
            socket = self._open("status", zmq.SUB)
        if not (yield socket, zmq.POLLIN, wait):
            raise TimedOut(f"{self._endpoint['status']}: no state was published within {wait} s")
        with _errors_of_ours():
            frames = socket.recv()
            if len(frames) > 1:
                return pb.Status.from_bytes(frames[1])
        raise Error(f"{self._endpoint['status']}: a message of one frame is no state: is it hilbertd's status socket?")

    # ---- sockets ----

    def _open(self, name: str, kind: int) -> zmq.Socket:
        if name in self._socket:
            return self._socket[name]
        if self._context.closed:
            raise Error("this client is closed")
        socket = zmq.Socket(self._context, kind)
        try:
            self._set_up(socket, name, kind)
        except BaseException:
            socket.close()  # one that is left open would keep close() waiting for ever
            if name in self._watch:
                self._watch.pop(name).close()
            raise
        self._socket[name] = socket
        return socket

    def _set_up(self, socket: zmq.Socket, name: str, kind: int) -> None:
        socket.set(zmq.LINGER, 0)
        socket.set(zmq.RECONNECT_IVL, 10)
        socket.set(zmq.RECONNECT_IVL_MAX, 50)
        if kind == zmq.DEALER:
            socket.set(zmq.IMMEDIATE, 1)  # questions do not pile up for a daemon that is not there
        if name == "actions" and self._name:
            try:
                socket.set(zmq.ROUTING_ID, self._name.encode())
            except zmq.ZMQError as error:
                raise Invalid(f"name: {_short(self._name)} is no name: at most 255 bytes") from error
        if self._keys:
            socket.set(zmq.CURVE_SERVERKEY, self._keys[0])
            socket.set(zmq.CURVE_SECRETKEY, self._keys[1])
            socket.set(zmq.CURVE_PUBLICKEY, zmq.curve_public(self._keys[1]))
        if kind == zmq.DEALER and self._endpoint[name].startswith("tcp://"):
            self._watch[name] = socket.monitor(_CONNECTED | _SUCCEEDED | _REFUSED | _FAILED)
        try:
            socket.connect(self._endpoint[name])
        except zmq.ZMQError as error:
            raise Error(f"{self._endpoint[name]}: {error.strerror}") from error

    def _advice(self, name: str) -> str:
        """Why there is no connection, from how the attempts at one have ended."""
        seen, watch = self._seen.get(name, 0), self._watch.get(name)
        while watch and watch.poll(0):
            seen |= int.from_bytes(watch.recv()[0][:2], "little")
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

    def _exchange(self, name: str, number: int, body: bytes, kind: type, until: float) -> _Wait:
        first = name not in self._socket
        with _errors_of_ours():
            socket = self._open(name, zmq.DEALER)
        if first:
            begun = time.monotonic()
            if (yield socket, zmq.POLLOUT, max(0.0, self.connect_timeout)):
                until += time.monotonic() - begun  # connecting does not count
        if not (yield socket, zmq.POLLOUT, max(0.0, until - time.monotonic())):
            raise NotConnected(f"no daemon at {self._endpoint[name]}: {self._advice(name)}")
        with _errors_of_ours():
            socket.send(body)
        if name == "actions":
            self._carried = []
        while (yield socket, zmq.POLLIN, max(0.0, until - time.monotonic())):
            with _errors_of_ours():
                reply = kind.from_bytes(socket.recv()[0])
            # an answer to an old question is dropped; one without id answers a request that could not be read
            if reply.id in (number, 0):
                return reply
        raise TimedOut(f"no answer from {self._endpoint[name]} in time")


class Client(_Connection):
    """A connection to one daemon. Use it in a `with`, or call close()."""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __init__(self, *arguments, **options) -> None:
        super().__init__(*arguments, **options)
        self._in_use = threading.Lock()

    @contextmanager
    def _mine(self):
        """Sockets of ZeroMQ in two threads end the process: rather an error."""
        if not self._in_use.acquire(blocking=False):
            raise Error("another thread is using this client: a client belongs to one thread")
        try:
            yield
        finally:
            self._in_use.release()

    def close(self) -> None:
        with self._mine():
            self._close()

    def publish(self, time_us: int, state: Vector, control: Vector, reset_counter: int = 0) -> None:
        with self._mine():
            super().publish(time_us, state, control, reset_counter)

    publish.__doc__ = _Connection.publish.__doc__

    def _run(self, call: _Wait):
        """Waits in this thread."""
        came = None
        with self._mine():
            try:
                while True:
                    socket, events, seconds = call.send(came)
                    with _errors_of_ours():
                        came = socket.poll(seconds, events)
            except StopIteration as end:
                return end.value

    def request(
        self,
        time_us: int,
        state: Vector,
        *,
        target: Vector | Iterable[Vector] | None = None,
        target_time: Vector | None = None,
        applied: Vector | None = None,
        budget: float = 0.0,
        want_plan: bool = False,
        reset_counter: int = 0,
        timeout: float | None = None,
    ) -> Reply:
        """The action to apply now. `applied` is the control really applied since the last request.

        `target` is a state, or the states of a whole trajectory, as a list of lists, an array, or one after the other: a
        step of the plan apart, or, with `target_time`, each at so many seconds after `time_us`.
        """
        return self._run(self._request(time_us, state, target, target_time, applied, budget, want_plan, reset_counter, timeout))

    def status(self) -> pb.Status:
        """What the daemon tells about itself."""
        return self._run(self._control("get_status")).status

    def model(self) -> pb.ModelInfo:
        """The model in use: names, units and bounds of states and controls."""
        return self._run(self._control("get_model")).model

    def reset_window(self) -> None:
        """Forget the window and the coefficients."""
        self._run(self._control("reset_window"))

    def set_target(self, state: Vector) -> None:
        """Of requests that name none, until the file has another target than before."""
        self._run(self._control("set_target", pb.Target(state=_vector("target", state))))

    def reload(self) -> list[str]:
        """Have the configuration read again; returns the keys that hold only after a restart."""
        return self._run(self._control("reload")).needs_restart

    def promote(self) -> None:
        """Has the shadow's model fly from the next request on; the one in use becomes the shadow."""
        self._run(self._control("promote"))

    def coefficients(self) -> pb.Coefficients:
        """What the vehicle has taught the daemon, to be kept and given back by set_coefficients.

        `value` is the mean and `variance` the variance of each coefficient; `covariance` is the lower triangle of the
        whole covariance, row by row (with per-state coefficients one triangle for each state).
        """
        return self._run(self._control("get_coefficients")).coefficients

    def set_coefficients(self, coefficients: pb.Coefficients) -> None:
        """Use these until the window is warm."""
        self._run(self._control("set_coefficients", coefficients))

    def predict(
        self, states: Iterable[Vector], controls: Iterable[Iterable[Vector]], dt: float = 0.0
    ) -> list[list[list[float]]]:
        """Trajectories from each state with its own sequence of controls, by the model with its present coefficients."""
        return self._run(self._predict(states, controls, dt))

    def watch(self, timeout: float | None = None) -> Iterator[pb.Status]:
        """The published states, one after the other; TimedOut when none comes for `timeout` seconds."""
        while True:
            yield self._run(self._next_status(self.timeout if timeout is None else timeout))


class AsyncClient(_Connection):
    """The same for asyncio: `async with hilbert.AsyncClient() as h: reply = await h.request(...)`.

    One call at a time: a second request while one is under way would take its answer.
    """

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._close()

    async def _run(self, call: _Wait):
        """Waits in the event loop."""
        came = None
        try:
            while True:
                socket, events, seconds = call.send(came)
                came = await self._wait(socket, events, seconds)
        except StopIteration as end:
            return end.value

    async def _wait(self, socket: zmq.Socket, events: int, seconds: float) -> bool:
        """libzmq's descriptor tells that something changed, once: what it was is asked for before and after."""
        loop, until = asyncio.get_running_loop(), time.monotonic() + seconds
        descriptor, changed = socket.get(zmq.FD), asyncio.Event()
        loop.add_reader(descriptor, changed.set)
        try:
            while not socket.get(zmq.EVENTS) & events:
                changed.clear()
                if socket.get(zmq.EVENTS) & events:
                    break
                try:
                    await asyncio.wait_for(changed.wait(), max(0.0, until - time.monotonic()))
                except asyncio.TimeoutError:
                    return bool(socket.get(zmq.EVENTS) & events)
            return True
        except zmq.ZMQError as error:
            raise Error(error.strerror) from error
        finally:
            loop.remove_reader(descriptor)

    async def request(
        self,
        time_us: int,
        state: Vector,
        *,
        target: Vector | Iterable[Vector] | None = None,
        target_time: Vector | None = None,
        applied: Vector | None = None,
        budget: float = 0.0,
        want_plan: bool = False,
        reset_counter: int = 0,
        timeout: float | None = None,
    ) -> Reply:
        """As Client.request."""
        return await self._run(
            self._request(time_us, state, target, target_time, applied, budget, want_plan, reset_counter, timeout)
        )

    async def status(self) -> pb.Status:
        """What the daemon tells about itself."""
        return (await self._run(self._control("get_status"))).status

    async def model(self) -> pb.ModelInfo:
        """The model in use: names, units and bounds of states and controls."""
        return (await self._run(self._control("get_model"))).model

    async def reset_window(self) -> None:
        """Forget the window and the coefficients."""
        await self._run(self._control("reset_window"))

    async def set_target(self, state: Vector) -> None:
        """Of requests that name none, until the file has another target than before."""
        await self._run(self._control("set_target", pb.Target(state=_vector("target", state))))

    async def reload(self) -> list[str]:
        """Have the configuration read again; returns the keys that hold only after a restart."""
        return (await self._run(self._control("reload"))).needs_restart

    async def promote(self) -> None:
        """Has the shadow's model fly from the next request on; the one in use becomes the shadow."""
        await self._run(self._control("promote"))

    async def coefficients(self) -> pb.Coefficients:
        """As Client.coefficients."""
        return (await self._run(self._control("get_coefficients"))).coefficients

    async def set_coefficients(self, coefficients: pb.Coefficients) -> None:
        """Use these until the window is warm."""
        await self._run(self._control("set_coefficients", coefficients))

    async def predict(
        self, states: Iterable[Vector], controls: Iterable[Iterable[Vector]], dt: float = 0.0
    ) -> list[list[list[float]]]:
        """As Client.predict."""
        return await self._run(self._predict(states, controls, dt))

    async def watch(self, timeout: float | None = None) -> AsyncIterator[pb.Status]:
        """The published states, one after the other; TimedOut when none comes for `timeout` seconds."""
        while True:
            yield await self._run(self._next_status(self.timeout if timeout is None else timeout))
