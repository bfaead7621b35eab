#!/bin/sh
# A plugin of jobs in shell: counts to three. Messages are lines of JSON; what this one needs of them
# is their type. Only an attempt has settings, which could look like another message: it comes first.
while read -r line; do
  case $line in
  *'"type":"execute"'*)
    for number in 1 2 3; do
      echo "{\"type\": \"progress\", \"output\": \"$number\\\\n\"}"
    done
    echo '{"type": "result", "success": true}'
    ;;
  *'"type":"hello"'*) echo '{"type": "hello", "protocol": 1, "name": "count", "version": "1.0"}' ;;
  *'"type":"health"'*) echo '{"type": "health", "ok": true}' ;;
  *'"type":"cancel"'*) exit 1 ;;
  esac
done
