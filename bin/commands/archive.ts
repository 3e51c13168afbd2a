/** `espalier archive` and its subcommands: store base backups and WAL of databases in an S3 bucket or a directory. */
import { setTimeout as delay } from 'node:timers/promises'
import { type Logger, pino } from 'pino'
import { removeAbandonedRegularly } from '../../archive/abandoned.ts'
import { ArchiveError } from '../../archive/errors.ts'
import type { Archive } from '../../archive/put.ts'
import { createArchiveMetrics } from '../../archive/server/metrics.ts'
import { startArchiveServer } from '../../archive/server/server.ts'
import { followCertificate } from '../../server/certificate.ts'
import { type HealthServer, startHealthServer } from '../../server/health.ts'
import { metricsPage, processMetrics } from '../../server/metrics.ts'
import { stopSignal } from '../../server/signals.ts'
import { type Command, logLevel, parseFlags, readCertificateFlags, readFlagFile, UsageError } from '../command.ts'
import { openArchive, required, storeHelp, storeOptions } from './archive/open.ts'

/** The subcommands. Each module is loaded only when its subcommand runs. */
const subcommands: Record<string, () => Promise<{ default: Command }>> = {
  backup: () => import('./archive/backup.ts'),
  list: () => import('./archive/list.ts'),
  restore: () => import('./archive/restore.ts'),
  fetch: () => import('./archive/fetch.ts'),
}

const help = `Stores base backups and WAL of databases, compressed and encrypted, in an S3 bucket or a directory.

Usage: espalier archive --store URL --key-file FILE --certificate FILE --key FILE --client-authority FILE [options]
                                    serves WAL files over HTTPS
       espalier archive backup ...  takes a base backup of a running Postgres
       espalier archive list ...    lists base backups
       espalier archive restore ... creates a data directory from a base backup
       espalier archive fetch ...   reads one WAL file: the restore_command of Postgres
       espalier archive backup|list|restore|fetch --help shows the options of each

${storeHelp}

  --certificate FILE       the certificate of this server, PEM
  --key FILE               its private key, PEM
  --client-authority FILE  the CA of clients' certificates, PEM
  --listen HOST:PORT       the listen address (default: 127.0.0.1:8443)
  --health PORT            serves /healthz, /readyz and /metrics on this port
  --until-input-ends       stops when its standard input ends, as when its parent process exits

A client needs a certificate of this CA with the URI urn:espalier:archive:<database id>:<incarnation>. It can access
/v1/<database id>/<incarnation>/wal and paths below it: PUT, GET and HEAD of a WAL file, GET of the list.

Environment: ESPALIER_LOG, the log level (default: info).`

const stopGraceMs = 20_000

const subcommandOf = ([name = '']: readonly string[]) =>
  Object.hasOwn(subcommands, name) ? subcommands[name] : undefined

const command: Command = {
  help,
  helpFor: async args => (await subcommandOf(args)?.())?.default.help,
  async run(args) {
    const subcommand = await subcommandOf(args)?.()
    return subcommand === undefined ? serve(args) : subcommand.default.run(args.slice(1))
  },
}
export default command

async function serve(args: string[]): Promise<number> {
  const flags = parseFlags(args, {
    ...storeOptions,
    certificate: { type: 'string' },
    key: { type: 'string' },
    'client-authority': { type: 'string' },
    listen: { type: 'string', default: '127.0.0.1:8443' },
    health: { type: 'string' },
    'until-input-ends': { type: 'boolean', default: false },
  })
  const files = { cert: required(flags, 'certificate'), key: required(flags, 'key') }
  const listen = addressOf(flags.listen)
  const authority = await readFlagFile('--client-authority', required(flags, 'client-authority'))
  const certificate = await readCertificateFlags(files)
  const logger = pino({ level: logLevel('info') })
  const stopped = stopSignal()
  const metrics = createArchiveMetrics()
  const opened = { isOpen: false }
  const health = await startHealth(flags.health, opened, metrics.registry, logger)
  const archive = await openPatiently(flags, logger, stopped)
  if (archive === undefined) {
    await health?.stop()
    return 0
  }
  const { store, keys } = archive
  const certificates = { ...certificate, ca: authority }
  const server = await startArchiveServer({ store, keys, certificates, listen, metrics, logger })
  // While a CA is replaced, clients have certificates of the old or the new CA, so the file contains both CAs.
  const follow = (renewed: typeof certificate) => {
    readFlagFile('--client-authority', required(flags, 'client-authority')).then(
      ca => server.follow({ ...renewed, ca }),
      (error: unknown) => logger.error({ err: error }, 'the CA of clients cannot be read'),
    )
  }
  const followed = followCertificate({
    files,
    current: certificate,
    use: renewed => follow(renewed),
    logger,
  })
  const abandoned = removeAbandonedRegularly(store, { logger })
  opened.isOpen = true
  logger.info(
    { store: store.location, isConditional: store.isConditional, ...server.address },
    'the archive server is ready',
  )
  await Promise.race([stopped, ...(flags['until-input-ends'] ? [inputEnds()] : [])])
  followed.stop()
  abandoned.stop()
  await server.stop(stopGraceMs)
  await health?.stop()
  store.close()
  return 0
}

const inputEnds = (): Promise<void> =>
  new Promise(resolve => {
    process.stdin.resume().once('end', resolve).once('error', resolve)
  })

function addressOf(text: string): { host: string; port: number } {
  const found = /^(\[[0-9a-f:]+\]|[^:]+):([0-9]{1,5})$/i.exec(text)
  const port = Number(found?.[2])
  if (found?.[1] === undefined || port > 65_535) throw new UsageError('--listen must be HOST:PORT')
  return { host: found[1].replace(/^\[|\]$/g, ''), port }
}

const reopenMs = 2_000

/**
 * Opens the archive, and retries while the store does not respond. If the process exited instead, Kubernetes could take
 * minutes to restart it. Throws if the store refuses the request or the key is wrong. Returns undefined if a signal
 * stops the process first.
 */
async function openPatiently(
  flags: Parameters<typeof openArchive>[0],
  logger: Logger,
  stopped: Promise<unknown>,
): Promise<Archive | undefined> {
  let isStopped = false
  const stopping = stopped.then(() => {
    isStopped = true
  })
  while (!isStopped) {
    try {
      return await openArchive(flags)
    } catch (error) {
      if (!isTemporary(error)) throw error
      logger.error({ err: error }, 'the store cannot be opened; retrying')
      const ending = new AbortController()
      await Promise.race([stopping, delay(reopenMs, undefined, { signal: ending.signal }).catch(() => {})])
      ending.abort()
    }
  }
  return undefined
}

const isTemporary = (error: unknown): boolean =>
  error instanceof Error &&
  error.cause instanceof ArchiveError &&
  error.cause.fault.kind === 'store' &&
  error.cause.fault.isTemporary

async function startHealth(
  port: string | undefined,
  opened: { readonly isOpen: boolean },
  registry: ReturnType<typeof createArchiveMetrics>['registry'],
  logger: Logger,
): Promise<HealthServer | undefined> {
  if (port === undefined) return undefined
  if (!/^[0-9]{1,5}$/.test(port) || Number(port) > 65_535) throw new UsageError('--health must be a port')
  return startHealthServer({
    port: Number(port),
    live: {},
    // If the store fails later, each client gets an error that names the cause, so the server must stay reachable.
    ready: { store: () => (opened.isOpen ? undefined : 'the store is not open yet') },
    metrics: metricsPage(() => [registry, processMetrics()]),
    logger,
  })
}
