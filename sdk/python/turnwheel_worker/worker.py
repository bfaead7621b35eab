"""A worker: it leases tasks, keeps them alive while their handlers run, and answers."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import threading
import time
from typing import Any, Callable, Dict, List, Optional

from .client import Client, Refused, TurnwheelError, pause

log = logging.getLogger("turnwheel_worker")

Handler = Callable[["Task"], Any]

# Seconds for which a lease waits for a task. A stop takes as long, so that no lease is left behind.
WAIT = 5.0
# Pauses in seconds after a lease that has failed: the first, and the longest.
PAUSES = (0.2, 15.0)


class Final(Exception):
    """A failure after which trying again cannot help."""

    def __init__(self, message: str, *, kind: str = "failed") -> None:
        super().__init__(message)
        self.kind = kind


class Cancelled(Exception):
    """The task is no longer this worker's: its plan was cancelled, or another worker has it."""


class Task:
    """A task that this worker has."""

    def __init__(self, data: Dict[str, Any], lease: float) -> None:
        self.id: str = data["id"]
        self.topic: str = data["topic"]
        self.plan: str = data["plan"]
        self.step: int = data["step"]
        #: The attempt of the step, from 1.
        self.attempt: int = data["attempt"]
        #: More than 1 if a worker was lost.
        self.delivery: int = data["delivery"]
        #: The same for each delivery: for what must be done only once.
        self.idempotency_key: str = data["idempotency_key"]
        #: When the attempt ends in any case, in the format of RFC 3339.
        self.deadline: Optional[str] = data.get("deadline")
        #: The header of W3C for the worker's own spans.
        self.traceparent: Optional[str] = data.get("traceparent")
        #: What the worker before has said last.
        self.last_heartbeat: Any = data.get("last_heartbeat")
        self.input: Any = data.get("input")
        #: Set when the task is no longer this worker's.
        self.cancelled = threading.Event()
        self._lease = lease
        self._details: Any = self.last_heartbeat
        self._ended = threading.Event()

    def progress(self, details: Any) -> None:
        """Goes with the next heartbeat; the next worker gets it if this one is lost."""
        json.dumps(details, allow_nan=False)
        self._details = details

    def check(self) -> None:
        """Raises Cancelled if the task is no longer this worker's."""
        if self.cancelled.is_set():
            raise Cancelled(self.id)


class Worker:
    """Does tasks of some topics, as many at once as `concurrency`."""

    def __init__(
        self,
        client: Client,
        *,
        concurrency: int = 1,
        lease: float = 30.0,
        grace: float = 10.0,
        name: Optional[str] = None,
    ) -> None:
        self._client = client
        self._concurrency = concurrency
        self._lease = lease
        self._grace = grace
        self._name = name or f"{socket.gethostname()}-{os.getpid()}"
        self._handlers: Dict[str, Handler] = {}
        self._stop = threading.Event()
        self._is_signalled = False
        self._changed = threading.Condition()
        self._running: Dict[str, Task] = {}

    def task(self, topic: str) -> Callable[[Handler], Handler]:
        """Registers the handler of a topic: its result is the output of the task."""

        def register(handler: Handler) -> Handler:
            self._handlers[topic] = handler
            return handler

        return register

    def stop(self) -> None:
        """Takes no new task. `run` returns when those under way have ended or were given back."""
        self._stop.set()
        with self._changed:
            self._changed.notify_all()

    def run(self, *, handle_signals: bool = True) -> None:
        """Works until a stop, SIGTERM or SIGINT."""
        if not self._handlers:
            raise ValueError("a worker without a handler has nothing to do")
        if handle_signals:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self._signalled)
        puller = threading.Thread(target=self._pull, name="turnwheel-lease", daemon=True)
        puller.start()
        while not self._stop.wait(0.2):
            if self._is_signalled:
                self.stop()
            if not puller.is_alive():
                raise RuntimeError("the thread that leases tasks has ended")
        self._drain()
        # What it leases now it gives back itself.
        puller.join(2 * WAIT)

    def _signalled(self, *_: Any) -> None:
        # Locks must not be taken in a handler: the main thread, which runs it, may have them.
        self._is_signalled = True

    def _drain(self) -> None:
        until = time.monotonic() + self._grace
        with self._changed:
            while self._running and time.monotonic() < until:
                self._changed.wait(min(0.2, self._grace))
            left = list(self._running.values())
            self._running.clear()
        for task in left:
            task.cancelled.set()
            self._give_back(task)

    def _pull(self) -> None:
        failures = 0
        while not self._stop.is_set():
            with self._changed:
                while len(self._running) >= self._concurrency and not self._stop.is_set():
                    self._changed.wait(0.5)
                free = self._concurrency - len(self._running)
            if self._stop.is_set():
                return
            try:
                leased = self._client.lease(
                    list(self._handlers),
                    limit=min(free, 100),
                    lease=self._lease,
                    wait=WAIT,
                    worker=self._name,
                )
                failures = 0
            except TurnwheelError as error:
                if not error.is_retryable:
                    log.error("no tasks can be leased: %s", error)
                self._stop.wait(pause(failures, *PAUSES))
                failures += 1
                continue
            self._begin([Task(data, self._lease) for data in leased])

    def _begin(self, tasks: List[Task]) -> None:
        for task in tasks:
            with self._changed:
                is_late = self._stop.is_set()
                if not is_late:
                    self._running[task.id] = task
            if is_late:
                self._give_back(task)
                continue
            for work in (self._beat, self._do):
                threading.Thread(target=work, args=(task,), daemon=True).start()

    def _give_back(self, task: Task) -> None:
        try:
            self._client.release(task.id)
        except TurnwheelError as error:
            log.warning("task %s is not given back, its lease has to end: %s", task.id, error)

    def _beat(self, task: Task) -> None:
        while not task._ended.wait(task._lease / 3):
            try:
                self._client.heartbeat(task.id, task._details)
            except TurnwheelError as error:
                if isinstance(error, Refused) and not error.is_retryable:
                    task.cancelled.set()
                    return
                log.warning("a heartbeat of task %s has failed: %s", task.id, error)

    def _do(self, task: Task) -> None:
        try:
            self._answer(task)
        except Refused as error:
            # Another worker has the task, or its plan is over: nobody waits for the answer.
            log.warning("the answer of task %s does not count: %s", task.id, error)
        except TurnwheelError as error:
            log.error("the answer of task %s is lost, its lease has to end: %s", task.id, error)
        finally:
            task._ended.set()
            with self._changed:
                self._running.pop(task.id, None)
                self._changed.notify_all()

    def _answer(self, task: Task) -> None:
        try:
            output = self._handlers[task.topic](task)
        except Cancelled:
            return
        except Final as error:
            if not task.cancelled.is_set():
                self._client.fail(task.id, str(error), kind=error.kind, is_final=True)
            return
        except Exception as error:  # noqa: BLE001 - the failure of a handler is the task's
            log.info("task %s has failed", task.id, exc_info=True)
            if not task.cancelled.is_set():
                kind = getattr(error, "kind", type(error).__name__)
                self._client.fail(task.id, str(error) or repr(error), kind=str(kind))
            return
        if task.cancelled.is_set():
            return
        try:
            self._client.complete(task.id, output)
        except (TypeError, ValueError) as error:
            self._client.fail(task.id, f"no JSON: {error}", kind="output", is_final=True)
        except Refused as error:
            if error.is_lease_lost or error.is_retryable:
                raise
            # Another worker could do no better: it is too large, for instance.
            self._client.fail(task.id, str(error), kind="output", is_final=True)
