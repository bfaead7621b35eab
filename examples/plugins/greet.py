#!/usr/bin/env python3
"""A plugin of jobs in Python: greets the name of its settings, with a step of progress.

A message is one line of JSON. The server says hello first and is answered; then it asks for health,
or to execute one attempt, which ends with a result. After a cancel the process is ended soon.
"""

import json
import sys


def say(**message):
    print(json.dumps(message), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "hello":
        say(type="hello", protocol=1, name="greet", version="1.0")
    elif message["type"] == "health":
        say(type="health", ok=True)
    elif message["type"] == "execute":
        name = message["config"].get("name", "")
        say(type="progress", output="looking for a name\n")
        if name:
            say(type="result", success=True, output=f"hello {name}\n")
        else:
            say(type="result", success=False, error="name: there is none in the config")
    elif message["type"] == "cancel":
        sys.exit(1)
