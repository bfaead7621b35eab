"""The operations of workers over HTTP."""

from __future__ import annotations

import json
import random
import time
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException
from typing import Any, Callable, Dict, List, Optional, Sequence

# Statuses after which the same request may work: too many requests, or a server in trouble.
RETRYABLE = frozenset({408, 429, 500, 502, 503, 504, 507})
# Time limit of a request in seconds, without the time of a wait for tasks.
WITHIN = 60.0


class TurnwheelError(Exception):
    """The server did not do what it was asked for."""

    #: Whether the same request can work later.
    is_retryable = False


class Unreachable(TurnwheelError):
    """There was no answer: the server is away, or the network."""

    is_retryable = True


class Refused(TurnwheelError):
    """The server answered with a problem."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        self.code = code
        self.detail = detail
        self.is_retryable = status in RETRYABLE

    @property
    def is_lease_lost(self) -> bool:
        """Whether the task is no longer this worker's."""
        return self.code == "lease-lost"


def pause(failures: int, first: float, most: float) -> float:
    """Seconds before the next try: twice as many after each failure, and half of them by chance."""
    whole = min(most, first * 2 ** min(failures, 30))
    return whole * (0.5 + random.random() / 2)


class Client:
    """A server, and the token of this worker. It can be used by many threads."""

    def __init__(
        self,
        url: str,
        token: Optional[str] = None,
        *,
        tries: int = 6,
        pause_first: float = 0.1,
        pause_max: float = 5.0,
        sleep: Callable[[float], Any] = time.sleep,
    ) -> None:
        self._base = url.rstrip("/") + "/api/v1"
        self._token = token
        self._tries = tries
        self._pauses = (pause_first, pause_max)
        self._sleep = sleep

    def lease(
        self,
        topics: Sequence[str],
        *,
        limit: int = 1,
        lease: float = 30.0,
        wait: float = 0.0,
        worker: Optional[str] = None,
    ) -> List[Dict[str, Any]]:
        """Leases tasks; waits so many seconds for one. It is tried once."""
        body: Dict[str, Any] = {
            "topics": list(topics),
            "limit": limit,
            "lease_ms": round(lease * 1000),
            "wait_ms": round(wait * 1000),
        }
        if worker is not None:
            body["worker"] = worker
        return self._once("POST", "/work/lease", body, WITHIN + wait)["tasks"]

    def heartbeat(self, task: str, details: Any = None) -> Dict[str, Any]:
        """Says that the worker lives, and how far it is. It is tried once."""
        return self._once("POST", self._of(task, "heartbeat"), {"details": details}, WITHIN)

    def complete(self, task: str, output: Any = None) -> Dict[str, Any]:
        """Says that the task is done; that is durable when this returns."""
        return self.request("POST", self._of(task, "complete"), {"output": output})

    def fail(
        self, task: str, message: str, *, kind: str = "failed", is_final: bool = False
    ) -> Dict[str, Any]:
        """Says that the task has failed; that is durable when this returns."""
        body = {"kind": kind, "message": message, "is_final": is_final}
        return self.request("POST", self._of(task, "fail"), body)

    def release(self, task: str) -> Dict[str, Any]:
        """Gives the task back: another worker gets it at once."""
        return self._once("POST", self._of(task, "release"), {}, WITHIN)

    def topic(self, name: str) -> Dict[str, Any]:
        """Counts the tasks of a topic."""
        return self.request("GET", "/work/topics/" + urllib.parse.quote(name, safe=""))

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Sends a request, again after growing pauses as long as that can help."""
        for failures in range(self._tries):
            try:
                return self._once(method, path, body, WITHIN)
            except TurnwheelError as error:
                if not error.is_retryable or failures + 1 == self._tries:
                    raise
            self._sleep(pause(failures, *self._pauses))
        raise AssertionError("there is at least one try")

    @staticmethod
    def _of(task: str, verb: str) -> str:
        return f"/work/{urllib.parse.quote(task, safe='')}/{verb}"

    def _once(self, method: str, path: str, body: Any, within: float) -> Any:
        headers = {"accept": "application/json"}
        data = None
        if body is not None:
            data = json.dumps(body, allow_nan=False).encode()
            headers["content-type"] = "application/json"
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        request = urllib.request.Request(
            self._base + path, data=data, headers=headers, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=within) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise refused(error.code, error.read()) from None
        except (OSError, HTTPException, ValueError) as error:
            raise Unreachable(f"{self._base + path}: {error}") from error


def refused(status: int, text: bytes) -> Refused:
    """The problem of an answer."""
    try:
        problem = json.loads(text)
        return Refused(status, str(problem["code"]), str(problem.get("detail", "")))
    except (ValueError, KeyError, TypeError):
        return Refused(status, "foreign", text[:300].decode(errors="replace"))
