"""Workers for Turnwheel: lease tasks of durable plans, do them, answer."""

from .client import Client, Refused, TurnwheelError, Unreachable
from .worker import Cancelled, Final, Task, Worker

__all__ = [
    "Cancelled",
    "Client",
    "Final",
    "Refused",
    "Task",
    "TurnwheelError",
    "Unreachable",
    "Worker",
]
__version__ = "0.1.0"
