#!/bin/sh
# The command `espalier` of the Postgres images. It stays process 1 of the container and starts Node as a child. The
# kernel drops signals to process 1 that have no handler, and on a tenth of a core Node needs seconds to install its
# handlers. A SIGTERM in this time would be lost, and the pod would run until its grace period of half an hour ends.
# So this script installs its handler first.
trap 'exit 143' TERM INT
here=$(dirname "$(readlink -f "$0")")
# An image has a bundle (images/bundle.ts).
main=$here/bundle/main.js
[ -e "$main" ] || main=$here/main.ts
# Only the agent runs as long as its container. Any other program replaces this script.
[ "$1 $2" = 'instance agent' ] || exec node "$main" "$@"

# Seconds that the agent has to end after SIGTERM.
grace=5
agent=
is_stopping=
stop() {
  trap '' TERM INT
  # The agent may not be started yet, or `agent` not assigned yet.
  [ -n "$!" ] || exit 143
  agent=$!
  # Fails if the agent has already ended and `wait` has returned its status.
  kill -TERM "$agent" 2>/dev/null || return
  is_stopping=yes
  (sleep "$grace" && kill -KILL "$agent" 2>/dev/null) &
}

trap stop TERM INT
node "$main" "$@" &
agent=${agent:-$!}

wait "$agent"
status=$?
# A signal also ends `wait`. `stop` ignores further signals, so the second `wait` returns the agent's own status.
if [ -n "$is_stopping" ]; then
  wait "$agent"
  status=$?
fi
exit "$status"
