/**
 * The probe by which a pod says that what Postgres writes to WAL comes to rest on its disk: a small synced write beside
 * WAL, every twenty seconds. A disk that hangs shows in nothing else that costs so little: the postmaster goes on
 * accepting connections, and a look that hangs might be a busy machine's.
 *
 * It runs where the database runs, so it is careful:
 * - It makes the pod not ready, and never ends it: what would start anew on a hanging disk is worse off.
 * - Only a hang fails it, and a disk that is full: a look then tells which of them it is, and clients are led to a pod that is
 *   not ready as well (the Service says so), since it goes on answering what it can read. An error is Postgres's to tell.
 * - It is never itself what hangs: nothing can end a process that waits for a hanging disk, and neither would the
 *   kubelet's time limit. The write is another process's, which holds a lock while it lasts, and the probe waits for the
 *   lock. A write that has not ended is not followed by a second one.
 * - It overwrites 512 bytes in place, and troubles no Postgres: a connection would cost it a process each time.
 *
 * Plain words of a shell and of what every Linux has: a template must run with an image that is older than itself.
 */

/** Stands as `$0` of the probe's shell; by it the embedded runtime knows what it runs (embedded/runtime/pods/shared-probe.ts). */
export const walProbeName = 'espalier-wal-probe'

/** On a pod: it has this probe, so that its readiness tells of the disk. */
export const walProbeAnnotation = 'espalier.dev/wal-probe'

/** How long the write may take before one probe fails; the next one fails at once while it still lasts. */
const patienceSeconds = 10

/** Less than this is none: as much as a look writes to see whether there is room (operator/postgres/state.ts). */
export const roomBytes = 64 * 1024

const script = `
exec 9>"$2" && flock -n 9 || exit 1
dd if=/dev/zero of="$1/espalier-probe" bs=512 count=1 conv=notrunc,fsync oflag=nofollow </dev/null >/dev/null 2>&1 &
exec 9>&- 8>"$2"
flock -w ${patienceSeconds} 8 || exit 1
wait
set -- $(stat -f -c '%a %S' "$1" 2>/dev/null || echo 1 ${roomBytes})
[ $(($1 * $2)) -ge ${roomBytes} ]
`.trim()

/** `wal`: the directory of WAL. `lock`: a file in memory. */
export const walProbeCommand = (wal: string, lock: string): string[] => ['sh', '-c', script, walProbeName, wal, lock]

/** A hang is told at the latest 20 + 10 + 20 s after it began: two probes in a row, the second of which does not wait. */
export const walProbeTiming = { periodSeconds: 20, failureThreshold: 2, timeoutSeconds: patienceSeconds + 5 }
