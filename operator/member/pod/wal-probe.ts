/**
 * The probe by which a pod reports whether WAL writes reach the disk: a small synced write beside WAL, every twenty
 * seconds. No other cheap check detects a hanging disk. The postmaster still accepts connections, and a query that
 * hangs might only show a busy machine.
 *
 * The probe must not harm the database:
 * - It makes the pod not ready, but never restarts it: a restart of Postgres on a hanging disk makes the problem worse.
 * - It fails only if a write hangs or the disk is full. The operator's probe then distinguishes the two. The Service
 *   still routes clients to a pod that is not ready, since Postgres still answers reads. Postgres itself reports write
 *   errors.
 * - The probe itself never hangs. Not even the kubelet's timeout can end a process that waits for a hanging disk. So a
 *   second process writes, and holds a lock while it writes. The probe waits only for the lock, with a timeout. It
 *   starts no second write while the first has not ended.
 * - It overwrites 512 bytes in place, and does not connect to Postgres: a connection would start a server process each
 *   time.
 *
 * Plain shell and standard Linux tools: a template must also run with an older image.
 */

/**
 * `$0` of the probe's shell. The embedded runtime recognises the probe by this name
 * (embedded/runtime/pods/shared-probe.ts).
 */
export const walProbeName = 'espalier-wal-probe'

/** Pod annotation: the pod has this probe. The pod is not ready while a WAL write hangs or the disk is full. */
export const walProbeAnnotation = 'espalier.dev/wal-probe'

/** How long the write may take before the probe fails. While the write has not ended, later probes fail at once. */
const timeoutSeconds = 10

/**
 * With less free space than this, the disk counts as full. The operator's probe writes the same amount
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

/** `wal`: the WAL directory. `lock`: a file in memory. */
export const walProbeCommand = (wal: string, lock: string): string[] => ['sh', '-c', script, walProbeName, wal, lock]

/**
 * The pod reports a hang after two consecutive failed probes, at most 20 + 10 + 20 s after the hang began. The second
 * probe does not wait.
 */
export const walProbeTiming = { periodSeconds: 20, failureThreshold: 2, timeoutSeconds: timeoutSeconds + 5 }
