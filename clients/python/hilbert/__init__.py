"""Client of hilbertd, the adaptive control daemon."""

from .client import Client, Error, Invalid, NotConnected, Refused, Reply, Status, TimedOut

__all__ = ["Client", "Error", "Invalid", "NotConnected", "Refused", "Reply", "Status", "TimedOut"]
