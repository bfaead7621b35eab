"""The worker of parcel.yaml: weighs items. «--once» ends it after one task."""

import os
import sys

# In a project of your own: pip install turnwheel-worker
here = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(here, "../../sdk/python"))

from turnwheel_worker import Client, Final, Task, Worker  # noqa: E402

GRAMS = {"book": 400, "lamp": 900, "stone": 2500}

worker = Worker(Client(sys.argv[1], token=os.environ.get("TURNWHEEL_TOKEN")), concurrency=4)


@worker.task("weigh")
def weigh(task: Task) -> dict:
    grams = 0
    for number, item in enumerate(task.input["items"]):
        task.check()  # the plan may have been cancelled
        task.progress({"weighed": number})
        if item not in GRAMS:
            raise Final(f"nobody knows what a {item} weighs", kind="unknown-item")
        grams += GRAMS[item]
    if "--once" in sys.argv:
        worker.stop()
    return {"grams": grams}


worker.run()
