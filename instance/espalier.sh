#!/bin/sh
# The command `espalier` of Postgres's images. What runs for as long as its container does is never the container's first process: the
# kernel keeps from that one every signal that it has not asked for, and Node asks only once it has started, which takes seconds
# where it has a tenth of a core. Whoever was told to end before that would hold the pod for all of its grace, half an hour.
# So this is asked for first of all: a pod may be told to go in the moment in which it comes.
trap 'exit 143' TERM INT
here=$(dirname "$(readlink -f "$0")")
# An image has a bundle (images/bundle.ts).
main=$here/bundle/main.js
[ -e "$main" ] || main=$here/main.ts
[ "$1 $2" = 'instance agent' ] || exec node "$main" "$@"

# It has so many seconds to end by itself.
grace=5
agent=
stop() {
  trap '' TERM INT
  # The signal may come before the agent is there, and before it has a name.
  [ -n "$!" ] || exit 143
  agent=$!
  kill -TERM "$agent"
  (sleep "$grace" && kill -KILL "$agent") &
}

trap stop TERM INT
node "$main" "$@" &
agent=${agent:-$!}

wait "$agent"
status=$?
# A signal ends the wait as well as the agent does.
while kill -0 "$agent" 2>/dev/null; do
  wait "$agent"
  status=$?
done
exit "$status"
