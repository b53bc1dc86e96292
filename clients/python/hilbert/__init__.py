"""Client of hilbertd, the adaptive control daemon."""

from .client import Client, Error, NotConnected, Refused, Reply, Status, TimedOut

__all__ = ["Client", "Error", "NotConnected", "Refused", "Reply", "Status", "TimedOut"]
