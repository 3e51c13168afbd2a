/** `espalier csi`: the driver for copy-on-write volumes on one node. */
import { createServer } from 'node:http'
import { pino } from 'pino'
import { mountPoolFile } from '../../csi/pool-file.ts'
import { driverName, startDriver } from '../../csi/server.ts'
import { type Command, parseFlags, stopSignal, UsageError } from '../command.ts'

const help = `Serves volumes on this node as image files that are copied by reflink (${driverName}).

Usage: espalier csi --node NAME --socket PATH --pool DIRECTORY [options]

  --node NAME              this node's name in Kubernetes
  --socket PATH            where kubelet and the sidecars speak to the driver
  --pool DIRECTORY         where images stand: on XFS or btrfs, or on --pool-file
  --pool-file FILE         a file that holds an XFS file system, mounted at --pool; made where it is not there
  --pool-size GIBIBYTES    how large a new --pool-file is (default: 20)
  --overcommit FACTOR      how many times the pool's size may be promised to volumes (default: 1)
  --registration DIRECTORY where kubelet looks for drivers (default: it is not told)
  --kubelet-socket PATH    --socket, as kubelet sees it
  --health PORT            serves /healthz there

Environment: ESPALIER_LOG, the log level (default: info).`

function positive(text: string, flag: string): number {
  const value = Number(text)
  if (!(value > 0 && value <= 1_000_000)) throw new UsageError(`${flag} must be a number above 0`)
  return value
}

const command: Command = {
  summary: 'serve copy-on-write volumes on a node of a Kubernetes cluster',
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
    const logger = pino({ level: process.env.ESPALIER_LOG || 'info' })
    const stopped = stopSignal()
    if (flags['pool-file'] !== undefined) await mountPoolFile(flags['pool-file'], gibibytes * 2 ** 30, pool)
    const driver = await startDriver({
      node,
      socket,
      pool,
      overcommit: positive(flags.overcommit, '--overcommit'),
      registration: flags.registration,
      kubeletSocket: flags['kubelet-socket'],
      version: '0.1.0',
      logger,
    })
    const health = createServer((_request, reply) => reply.end('ok\n'))
    if (flags.health !== undefined) health.listen(positive(flags.health, '--health'))
    logger.info({ node, pool }, 'the driver serves')
    await stopped
    health.close()
    await driver.stop()
    return 0
  },
}
export default command
