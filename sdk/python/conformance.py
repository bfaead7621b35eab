"""The worker of this SDK for the conformance test: see sdk/README.md."""

import json
import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from turnwheel_worker import Cancelled, Client, Final, Refused, Task, Unreachable, Worker  # noqa: E402

url, lease, grace = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
client = Client(url, token=os.environ.get("TURNWHEEL_TOKEN"), pause_first=0.01)
worker = Worker(client, concurrency=2, lease=lease, grace=grace, name="conformance-1")
pair = threading.Barrier(2)


def say(event: str, task: Task) -> None:
    print(json.dumps({"event": event, "plan": task.plan}), flush=True)


@worker.task("echo")
def echo(task: Task) -> dict:
    names = ("topic", "plan", "step", "attempt", "delivery", "idempotency_key", "deadline")
    return {**{name: getattr(task, name) for name in names}, "input": task.input}


@worker.task("flaky")
def flaky(task: Task) -> dict:
    if task.attempt < 3:
        raise RuntimeError("not yet")
    return {"attempt": task.attempt}


@worker.task("final")
def final(task: Task) -> None:
    raise Final("never", kind="refused")


@worker.task("unfit")
def unfit(task: Task) -> object:
    ring: list = []
    ring.append(ring)
    return ring


@worker.task("pair")
def both(task: Task) -> str:
    pair.wait(60)
    return "together"


@worker.task("hold")
def hold(task: Task) -> None:
    task.progress({"held": task.delivery})
    say("begun", task)
    task.cancelled.wait()
    say("cancelled", task)
    raise Cancelled


@worker.task("stubborn")
def stubborn(task: Task) -> None:
    say("begun", task)
    time.sleep(120)


@worker.task("errors")
def errors(task: Task) -> dict:
    told = {}
    try:
        client.complete("nonsense")
    except Refused as error:
        told["refused"] = [error.code, error.is_retryable]
    try:
        Client("http://127.0.0.1:9", tries=2, pause_first=0.01).complete(task.id)
    except Unreachable as error:
        told["unreachable"] = [error.is_retryable]
    return told


worker.run()
