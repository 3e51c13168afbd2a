/**
 * The probe by which a pod reports whether WAL writes reach the disk: a small synced write beside WAL, every twenty
 * seconds. No other cheap check detects a hanging disk: the postmaster continues to accept connections, and a probe of
 * Postgres that hangs might be due to a busy machine.
 *
 * It runs beside the database, so it is careful:
 * - It makes the pod not ready, and never ends it: restarting Postgres on a hanging disk makes the problem worse.
 * - Only a hang or a full disk fails it: the operator's probe then finds out which. Clients are still sent to a pod
 *   that is not ready (the Service says so), since Postgres goes on answering reads. Postgres itself reports write
 *   errors.
 * - It never hangs itself: a process that waits for a hanging disk cannot be ended, not even by the kubelet's time
 *   limit. A second process does the write, and holds a lock while it writes. The probe only waits for the lock, with a
 *   time limit. While a write has not ended, no second one is started.
 * - It overwrites 512 bytes in place, and does not use Postgres: a connection would cost it a process each time.
 *
 * Plain shell and standard Linux tools: a template must run with an image that is older than itself.
 */

/**
 * `$0` of the probe's shell; the embedded runtime recognises the probe by it (embedded/runtime/pods/shared-probe.ts).
 */
export const walProbeName = 'espalier-wal-probe'

/** Pod annotation: the pod has this probe, so its readiness reports on the disk. */
export const walProbeAnnotation = 'espalier.dev/wal-probe'

/** How long the write may take before one probe fails; the next one fails at once while it still lasts. */
const timeoutSeconds = 10

/**
 * Less free space than this counts as full: the amount that the operator's probe writes to check it
 * (operator/postgres/state.ts).
 */
export const leastFreeBytes = 64 * 1024

const script = `
exec 9>"$2" && flock -n 9 || exit 1
dd if=/dev/zero of="$1/espalier-probe" bs=512 count=1 conv=notrunc,fsync oflag=nofollow </dev/null >/dev/null 2>&1 &
exec 9>&- 8>"$2"
flock -w ${timeoutSeconds} 8 || exit 1
wait
set -- $(stat -f -c '%a %S' "$1" 2>/dev/null || echo 1 ${leastFreeBytes})
[ $(($1 * $2)) -ge ${leastFreeBytes} ]
`.trim()

/** `wal`: the directory of WAL. `lock`: a file in memory. */
export const walProbeCommand = (wal: string, lock: string): string[] => ['sh', '-c', script, walProbeName, wal, lock]

/**
 * A hang is reported at most 20 + 10 + 20 s after it began: two failed probes in a row, the second of which does not
 * wait.
 */
export const walProbeTiming = { periodSeconds: 20, failureThreshold: 2, timeoutSeconds: timeoutSeconds + 5 }
