/**
 * The command that starts Postgres: a shell decides whether the log is written to the volume, and is then replaced by
 * Postgres (exec). The settings for that are on the volume already (instance/log); the command line overrides them.
 * Postgres prints its log to stderr
 *
 * - if the volume is almost full: its last messages could not be written there, and the operator reads them;
 * - after a start that failed in order and left no lock file, for example because it could not listen or recover: its
 *   last messages went to the volume, and now go to the container's log, where the kubelet and so the operator find
 *   them. A killed Postgres leaves its lock file;
 * - if the directory does not exist: Postgres does not start if it cannot open its log.
 *
 * The kernel drops signals to a container's first process unless it has a handler. So the shell sets its handlers
 * first: a pod may be deleted the moment it starts, and would otherwise run for its complete grace period.
 *
 * Plain shell: a template must run with an image that is older than itself.
 */
import { fileBytes, logDirectory, preparedFile } from '../../../instance/log/directory.ts'
import { dataDirectory } from '../../../instance/volume.ts'

/** `$0` of the shell. */
const startName = 'espalier-start'
const leastFreeBytes = 8 * fileBytes

const script = `
trap 'exit 143' TERM INT
volume=$1 prepared=$1/${logDirectory}/${preparedFile}
shift
has_room() {
  set -- $(stat -f -c '%a %S' "$volume" 2>/dev/null || echo 0 0)
  [ $(($1 * $2)) -ge ${leastFreeBytes} ]
}
has_failed() { [ ! -e "$prepared" ] && [ ! -e "$volume/${dataDirectory}/postmaster.pid" ]; }
if has_failed || ! has_room || [ ! -w "$volume/${logDirectory}" ]; then set -- "$@" -c logging_collector=off; fi
rm -f "$prepared"
exec "$@"
`.trim()

/** `volume`: its root. `command`: that of Postgres. */
export const startCommand = (volume: string, command: readonly string[]): string[] => [
  ...['sh', '-c', script, startName, volume],
  ...command,
]
