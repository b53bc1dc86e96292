"""Give hilbertd telemetry, ask it for actions. The contract is proto/hilbert.proto; the verbs are those of the C client.

No call waits longer than its time-out. The connection comes back by itself when the daemon does: after an error, call
again. A client belongs to one thread. Vectors are lists of floats in physical units and the model's order.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import os
import time
from collections.abc import Iterator, Sequence

import zmq

from . import hilbert_pb2 as pb

__all__ = ["Client", "Reply", "Status", "Error", "NotConnected", "TimedOut", "Refused"]


class Error(Exception):
    """Anything that went wrong between us and the daemon."""


class NotConnected(Error):
    """There was no daemon to ask within the time-out."""


class TimedOut(Error):
    """No answer came within the time-out."""


class Refused(Error):
    """The daemon said no to a control request; the text says why."""


class Status(enum.IntEnum):
    """How good an action is, from best to worst."""

    CONVERGED = pb.ACTION_STATUS_CONVERGED  #: the plan could not be improved further
    TRUNCATED = pb.ACTION_STATUS_TRUNCATED  #: the deadline came first: the best plan so far
    WARMING_UP = pb.ACTION_STATUS_WARMING_UP  #: too few samples: the average model was used
    OUT_OF_SPAN = pb.ACTION_STATUS_OUT_OF_SPAN  #: the vehicle behaves as no trained dynamics do
    STALE = pb.ACTION_STATUS_STALE  #: telemetry is old
    FALLBACK = pb.ACTION_STATUS_FALLBACK  #: no plan was made: the last plan shifted, then the safe action
    REFUSED = pb.ACTION_STATUS_REFUSED  #: the request could not be answered: see the reason
    LIMITED = pb.ACTION_STATUS_LIMITED  #: the best plan breaks a limit of the configuration; better than warming-up


@dataclasses.dataclass(frozen=True)
class Reply:
    """An answer to a request."""

    status: Status
    reason: str  #: of refused and fallback: "late", "not-finite", ...; else "none"
    detail: str  #: a refusal in words
    action: list[float]  #: within bounds; empty when the request never reached the planner
    cost: float
    iterations: int
    queue: float  #: seconds in the daemon: waiting,
    planning: float  #: planning,
    total: float  #: and from receipt to reply
    coefficient_version: int
    coefficient_age: float  #: seconds since the newest sample behind the coefficients; may be infinite
    health: pb.Health
    plan: list[list[float]]  #: with want_plan: a row of controls for each step
    predicted: list[list[float]]  #: with want_plan: a row of states for each step, and the last


def _rows(flat: Sequence[float], width: int) -> list[list[float]]:
    return [list(flat[i : i + width]) for i in range(0, len(flat), width)] if width else []


def _reply(m: pb.ActionReply, nx: int, nu: int) -> Reply:
    return Reply(
        status=Status(m.status),
        reason=pb.Reason.Name(m.reason).removeprefix("REASON_").lower().replace("_", "-"),
        detail=m.detail,
        action=list(m.action),
        cost=m.cost,
        iterations=m.iterations,
        queue=1e-6 * m.queue_us,
        planning=1e-6 * m.planning_us,
        total=1e-6 * m.total_us,
        coefficient_version=m.coefficient_version,
        coefficient_age=m.coefficient_age,
        health=m.health,
        plan=_rows(m.plan, nu),
        predicted=_rows(m.predicted, nx),
    )


def _read_key(path: str | os.PathLike[str]) -> bytes:
    with open(path, "rb") as file:
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
    ) -> None:
        """Endpoints default to the ipc sockets in `folder`; keys (both or none) are files, for tcp."""
        if (server_key is None) != (client_key is None):
            raise Error("CURVE needs both server_key and client_key")
        self.timeout = timeout
        self._keys = (_read_key(server_key), _read_key(client_key)) if server_key and client_key else None
        self._endpoint = {
            "telemetry": telemetry or f"ipc://{folder}/telemetry",
            "actions": actions or f"ipc://{folder}/actions",
            "control": control or f"ipc://{folder}/control",
            "status": status or f"ipc://{folder}/status",
        }
        self._context = zmq.Context()
        self._socket: dict[str, zmq.Socket] = {}
        self._sequence = 0
        self._id = 0
        self._nx = 0

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for socket in self._socket.values():
            socket.close(linger=0)
        self._socket.clear()
        self._context.term()

    # ---- telemetry ----

    def publish(self, time_us: int, state: Sequence[float], control: Sequence[float], reset_counter: int = 0) -> None:
        """The state at a moment, and the control in force from then on. Never waits; lost while the daemon is away."""
        self._sequence += 1
        m = pb.Telemetry(
            time_us=time_us, state=state, control=control, sequence=self._sequence, reset_counter=reset_counter
        )
        self._open("telemetry", zmq.PUB).send(m.SerializeToString(), zmq.NOBLOCK)

    # ---- actions ----

    def request(
        self,
        time_us: int,
        state: Sequence[float],
        *,
        target: Sequence[float] | None = None,
        applied: Sequence[float] | None = None,
        budget: float = 0.0,
        want_plan: bool = False,
        reset_counter: int = 0,
        timeout: float | None = None,
    ) -> Reply:
        """The action to apply now. `applied` is the control really applied since the last request."""
        until = time.monotonic() + (self.timeout if timeout is None else timeout)
        self._id += 1
        m = pb.ActionRequest(
            id=self._id,
            time_us=time_us,
            state=state,
            target=target or (),
            applied=applied or (),
            budget_us=math.ceil(1e6 * budget),
            want_plan=want_plan,
            reset_counter=reset_counter,
        )
        reply = self._exchange("actions", m, pb.ActionReply(), until)
        return _reply(reply, len(state), len(reply.action))

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

    def set_target(self, state: Sequence[float]) -> None:
        """Of requests that name none, until the next reload or restart."""
        self._command(set_target=pb.Target(state=state))

    def reload(self) -> list[str]:
        """Have the configuration read again; returns the keys that hold only after a restart."""
        return list(self._command(reload=pb.Nothing()).needs_restart)

    def coefficients(self) -> pb.Coefficients:
        """What the vehicle has taught the daemon, to be kept and given back by set_coefficients."""
        return self._command(get_coefficients=pb.Nothing()).coefficients

    def set_coefficients(self, coefficients: pb.Coefficients) -> None:
        """Use these until the window is warm."""
        self._command(set_coefficients=coefficients)

    def predict(
        self, states: Sequence[Sequence[float]], controls: Sequence[Sequence[Sequence[float]]], dt: float = 0.0
    ) -> list[list[list[float]]]:
        """Trajectories from each state with its own sequence of controls, by the model with its present coefficients."""
        m = pb.Predict(count=len(states), steps=len(controls[0]) if controls else 0, dt=dt)
        for state in states:
            m.state.extend(state)
        for sequence in controls:
            for control in sequence:
                m.control.extend(control)
        flat = self._command(predict=m).prediction.state
        rows = _rows(flat, len(states[0]))
        return [rows[i * (m.steps + 1) : (i + 1) * (m.steps + 1)] for i in range(len(states))]

    # ---- status ----

    def watch(self, timeout: float | None = None) -> Iterator[pb.Status]:
        """The published states, one after the other; TimedOut when none comes for `timeout` seconds."""
        socket = self._open("status", zmq.SUB)
        socket.setsockopt(zmq.SUBSCRIBE, b"hilbert.v1.Status")
        wait = self.timeout if timeout is None else timeout
        while True:
            if not socket.poll(int(1e3 * wait)):
                raise TimedOut(f"{self._endpoint['status']}: no state was published within {wait} s")
            yield pb.Status.FromString(socket.recv_multipart()[1])

    # ---- sockets ----

    def _open(self, name: str, kind: int) -> zmq.Socket:
        if name in self._socket:
            return self._socket[name]
        socket = self._context.socket(kind)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RECONNECT_IVL, 10)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 50)
        if kind == zmq.DEALER:
            socket.setsockopt(zmq.IMMEDIATE, 1)  # questions do not pile up for a daemon that is not there
        if self._keys:
            socket.curve_serverkey, socket.curve_secretkey = self._keys
            socket.curve_publickey = zmq.curve_public(self._keys[1])
        socket.connect(self._endpoint[name])
        self._socket[name] = socket
        return socket

    def _exchange(self, name: str, request: pb.ActionRequest | pb.ControlRequest, reply, until: float):
        socket = self._open(name, zmq.DEALER)
        if not socket.poll(max(0, math.ceil(1e3 * (until - time.monotonic()))), zmq.POLLOUT):
            raise NotConnected(f"no daemon at {self._endpoint[name]}: is hilbertd running?")
        socket.send(request.SerializeToString(), zmq.NOBLOCK)
        while socket.poll(max(0, math.ceil(1e3 * (until - time.monotonic())))):
            reply.ParseFromString(socket.recv())
            # an answer to an old question is dropped; one without id answers a request that could not be read
            if reply.id in (request.id, 0):
                return reply
        raise TimedOut(f"no answer from {self._endpoint[name]} in time")

    def _command(self, **command) -> pb.ControlReply:
        self._id += 1
        request = pb.ControlRequest(id=self._id, **command)
        reply = self._exchange("control", request, pb.ControlReply(), time.monotonic() + self.timeout)
        if not reply.ok:
            raise Refused(reply.error)
        return reply
