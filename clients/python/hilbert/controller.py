"""A controller for loops that have time to wait: simulators, environments of Gymnasium, notebooks."""

from __future__ import annotations

from .client import Client, Error, Reply, Vector

__all__ = ["Controller"]


class Controller:
    """hilbertd in lock-step as a policy: `action = controller.act(observation, time)`.

    The daemon runs with `latency: {clock: vehicle}`; time is the environment's, in seconds since the episode's start, and
    stands still until the action is there. The action is in force until the next call, and is learned from then.

        with hilbert.Controller() as controller:
            observation, _ = env.reset()
            for k in range(500):
                observation, *_ = env.step(controller.act(observation, k * dt))
    """

    def __init__(self, folder: str = "/run/hilbertd", *, default: Vector | None = None, timeout: float = 60.0, **options) -> None:
        """`default` is the action while no plan is to be trusted; without one, what the daemon answers then is applied.
        Other options are those of Client."""
        self.client = Client(folder, timeout=timeout, lockstep=True, **options)
        self.reply: Reply | None = None  #: the last, with status, cost and health
        self._default = None if default is None else list(default)
        self._episode = 0
        self._last: float | None = None

    def __enter__(self) -> Controller:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.client.close()

    def reset(self) -> None:
        """Another episode begins: what was seen last is not joined with what comes. A time that goes back does the same."""
        self._episode += 1
        self._last = None

    def act(self, observation: Vector, time: float, target: Vector | None = None):
        """The action for the environment at this time: a numpy array where the observation is one, else a list."""
        if self._last is not None and time <= self._last:
            self.reset()
        self._last = time
        moment = round(1e6 * time)
        self.reply = self.client.request(moment, observation, target=target, reset_counter=self._episode)
        trusted = self.reply.action and (self.reply.status.planned or self._default is None)
        if not trusted and self._default is None:
            raise Error(f"{self.reply.status}: {self.reply.detail or self.reply.reason}")
        action = self.reply.action if trusted else self._default
        self.client.publish(moment, observation, action, reset_counter=self._episode)
        if hasattr(observation, "dtype"):
            import numpy

            return numpy.asarray(action, dtype=float)
        return list(action)
