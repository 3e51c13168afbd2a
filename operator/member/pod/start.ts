/**
 * The command that starts Postgres. A shell decides whether Postgres logs to the volume. Then Postgres replaces the
 * shell (exec). The settings on the volume make Postgres log to the volume (instance/log). In these cases the command
 * line overrides the settings, and Postgres logs to stderr:
 *
 * - if the volume is almost full: Postgres could not write its last messages there, and the operator must read them;
 * - after a start that failed without a crash and left no lock file, for example because Postgres could not listen or
 *   recover. Its last messages are only on the volume. The next start logs its own messages to stderr, where the
 *   operator finds them. A killed Postgres leaves its lock file;
 * - if the log directory does not exist: Postgres does not start if it cannot open its log.
 *
 * The kernel drops signals to a container's first process unless that process handles them. So the shell sets its
 * signal handlers first. Without them, a pod that is deleted at its start would run for the complete grace period.
 *
 * A plain shell script: a template must also run with an older image.
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

/** `volume`: the root directory of the volume. `command`: starts Postgres. */
export const startCommand = (volume: string, command: readonly string[]): string[] => [
  ...['sh', '-c', script, startName, volume],
  ...command,
]
