/** `espalier csi`: runs the driver for copy-on-write volumes on one node. */
import { mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { pino } from 'pino'
import { acquireLock } from '../../csi/lock.ts'
import { mountPoolFile } from '../../csi/pool-file.ts'
import { driverName, startDriver } from '../../csi/server.ts'
import { startHealthServer } from '../../server/health.ts'
import { stopSignal } from '../../server/signals.ts'
import { version } from '../../server/version.ts'
import { type Command, logLevel, parseFlags, UsageError } from '../command.ts'

const help = `Serves volumes on this node as image files that are copied by reflink (${driverName}).

Usage: espalier csi --node NAME --socket PATH --pool DIRECTORY [options]

  --node NAME              this node's name in Kubernetes
  --socket PATH            the socket for kubelet and the sidecars
  --pool DIRECTORY         the directory of the images: on XFS or btrfs, or on --pool-file
  --pool-file FILE         a file with an XFS file system, mounted at --pool; created if missing
  --pool-size GIBIBYTES    the size of a new --pool-file (default: 20)
  --overcommit FACTOR      the space that volumes may reserve, as a multiple of the pool's size (default: 1)
  --registration DIRECTORY where kubelet discovers drivers (default: not registered)
  --kubelet-socket PATH    the path at which kubelet finds --socket
  --health PORT            serves /healthz and /readyz on this port

One driver at a time serves a pool. A second driver waits until the first one has stopped.

Environment: ESPALIER_LOG, the log level (default: info).`

function positive(text: string, flag: string): number {
  const value = Number(text)
  if (!(value > 0 && value <= 1_000_000)) throw new UsageError(`${flag} must be a number above 0`)
  return value
}

const command: Command = {
  help,
  async run(args) {
    const flags = parseFlags(args, {
      node: { type: 'string' },
      socket: { type: 'string' },
      pool: { type: 'string' },
      'pool-file': { type: 'string' },
      'pool-size': { type: 'string', default: '20' },
      overcommit: { type: 'string', default: '1' },
      registration: { type: 'string' },
      'kubelet-socket': { type: 'string' },
      health: { type: 'string' },
    })
    const { node, socket, pool } = flags
    if (node === undefined || socket === undefined || pool === undefined) {
      throw new UsageError('--node, --socket and --pool are required')
    }
    const gibibytes = positive(flags['pool-size'], '--pool-size')
    const logger = pino({ level: logLevel('info') })
    const stopped = stopSignal()
    const stopping = new AbortController()
    void stopped.then(() => stopping.abort(new Error('stopped')))
    const { signal } = stopping
    let isReady = false
    // A driver that waits for another driver to stop is live, because a restart would not help.
    const health =
      flags.health === undefined
        ? undefined
        : await startHealthServer({
            port: positive(flags.health, '--health'),
            live: {},
            ready: { pool: () => (isReady ? undefined : 'waiting for the pool') },
            logger,
          })
    const poolFile = flags['pool-file']
    let releaseFile = () => {}
    const open = async () => {
      if (poolFile !== undefined) {
        await mkdir(dirname(poolFile), { recursive: true, mode: 0o700 })
        releaseFile = await acquireLock({ path: `${poolFile}.lock`, signal, logger })
        await mountPoolFile(poolFile, gibibytes * 2 ** 30, pool)
      }
      return startDriver({
        node,
        socket,
        pool,
        overcommit: positive(flags.overcommit, '--overcommit'),
        registration: flags.registration,
        kubeletSocket: flags['kubelet-socket'],
        version,
        signal,
        logger,
      })
    }
    const driver = await open().catch(async (error: unknown) => {
      await health?.stop()
      releaseFile()
      if (!signal.aborted) throw error
      return undefined
    })
    if (driver === undefined) return 0
    isReady = true
    logger.info({ node, pool }, 'the driver is ready')
    await stopped
    await health?.stop()
    await driver.stop()
    releaseFile()
    return 0
  },
}
export default command
