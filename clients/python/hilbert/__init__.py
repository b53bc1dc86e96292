"""hilbertd, the adaptive control daemon, from Python.

    Client        telemetry in, actions out; status, model, target, predictions
    AsyncClient   the same for asyncio
    Controller    lock-step with a simulator: act(observation, time)
    Model         a basis file in a notebook, without a daemon: predict, fit, log_likelihood
    Recording     what a daemon recorded, as arrays
    messages      the plain objects that come back

Nothing has to be installed beside libzmq (Debian: libzmq5); numpy is taken where it is there.
"""

from . import messages
from ._version import __version__
from .client import AsyncClient, Client, Error, Invalid, NotConnected, Refused, Reply, Status, TimedOut
from .controller import Controller
from .model import Model
from .recording import Recording

__all__ = [
    "AsyncClient",
    "Client",
    "Controller",
    "Error",
    "Invalid",
    "Model",
    "NotConnected",
    "Recording",
    "Refused",
    "Reply",
    "Status",
    "TimedOut",
    "messages",
    "__version__",
]
