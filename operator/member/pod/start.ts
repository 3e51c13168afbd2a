/**
 * How Postgres is started: by a shell that decides whether it keeps its log on the volume, and becomes it. The settings for that are
 * on the volume already (instance/log); the command line wins over them. Postgres prints its log, as it did before there was one on the
 * volume,
 *
 * - where the volume is all but full: the words with which it ends would not be kept there, and the operator reads them;
 * - after a start that ended in order and left no lock file, as one does that could not listen or recover: its last words went to the
 *   volume, and now they come to where the kubelet, and so the operator, find them. One that was killed left its lock file;
 * - where there is no directory for it: one that cannot open its log does not start.
 *
 * The kernel keeps from a container's first process every signal that it has not asked for, so the shell asks first of all: a pod may be told to
 * go in the moment in which it comes, and would stay for all of its grace.
 *
 * Plain words of a shell: a template must run with an image that is older than itself.
 */
import { fileBytes, logDirectory, preparedFile } from '../../../instance/log/directory.ts'
import { dataDirectory } from '../../../instance/volume.ts'

/** Stands as `$0` of the shell. */
const startName = 'espalier-start'
const leastRoomBytes = 8 * fileBytes

const script = `
trap 'exit 143' TERM INT
volume=$1 prepared=$1/${logDirectory}/${preparedFile}
shift
has_room() {
  set -- $(stat -f -c '%a %S' "$volume" 2>/dev/null || echo 0 0)
  [ $(($1 * $2)) -ge ${leastRoomBytes} ]
}
has_failed() { [ ! -e "$prepared" ] && [ ! -e "$volume/${dataDirectory}/postmaster.pid" ]; }
if has_failed || ! has_room || [ ! -w "$volume/${logDirectory}" ]; then set -- "$@" -c logging_collector=off; fi
rm -f "$prepared"
exec "$@"
`.trim()

/** `volume`: its root. `command`: Postgres's own. */
export const startCommand = (volume: string, command: readonly string[]): string[] => [
  ...['sh', '-c', script, startName, volume],
  ...command,
]
