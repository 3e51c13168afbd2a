/** `espalier archive`: keeps base backups and WAL of databases in an S3 bucket or a directory; and its subcommands. */
import { type Logger, pino } from 'pino'
import { keyCheckName } from '../../archive/names.ts'
import { createArchiveMetrics } from '../../archive/server/metrics.ts'
import { startArchiveServer } from '../../archive/server/server.ts'
import type { ObjectStore } from '../../archive/store/store.ts'
import { followCertificate } from '../../server/certificate.ts'
import { type HealthServer, startHealthServer } from '../../server/health.ts'
import { metricsPage, processMetrics } from '../../server/metrics.ts'
import { stopSignal } from '../../server/signals.ts'
import { type Command, logLevel, parseFlags, readCertificateFlags, readFlagFile, UsageError } from '../command.ts'
import { openArchive, required, storeHelp, storeOptions } from './archive/open.ts'

/** Loaded only when they are asked for. */
const subcommands: Record<string, () => Promise<{ default: Command }>> = {
  backup: () => import('./archive/backup.ts'),
  list: () => import('./archive/list.ts'),
  restore: () => import('./archive/restore.ts'),
  fetch: () => import('./archive/fetch.ts'),
}

const help = `Keeps base backups and WAL of databases, compressed and encrypted, in an S3 bucket or a directory.

Usage: espalier archive --store URL --key-file FILE --certificate FILE --key FILE --client-authority FILE [options]
                                    serves WAL files over HTTPS
       espalier archive backup ...  takes a base backup of a running Postgres
       espalier archive list ...    lists base backups
       espalier archive restore ... makes a data directory of a base backup
       espalier archive fetch ...   reads one WAL file: the restore_command of Postgres
       espalier archive backup|list|restore|fetch --help describes each

${storeHelp}

  --certificate FILE       the certificate of this server, PEM
  --key FILE               its private key, PEM
  --client-authority FILE  the authority of clients' certificates, PEM
  --listen HOST:PORT       where to listen (default: 127.0.0.1:8443)
  --health PORT            serves /healthz, /readyz and /metrics there

Clients show a certificate of the authority with the URI urn:espalier:archive:<database id>:<incarnation>, and reach
/v1/<database id>/<incarnation>/wal and what is below it: PUT, GET and HEAD of a WAL file, GET of the list.

Environment: ESPALIER_LOG, the log level (default: info).`

const stopGraceMs = 20_000

const subcommandOf = ([name = '']: readonly string[]) =>
  Object.hasOwn(subcommands, name) ? subcommands[name] : undefined

const command: Command = {
  summary: 'keep base backups and WAL of databases in an S3 bucket or a directory',
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
  })
  const files = { cert: required(flags, 'certificate'), key: required(flags, 'key') }
  const listen = addressOf(flags.listen)
  const authority = await readFlagFile('--client-authority', required(flags, 'client-authority'))
  const certificate = await readCertificateFlags(files)
  const logger = pino({ level: logLevel('info') })
  const stopped = stopSignal()
  const { store, keys } = await openArchive(flags)
  const metrics = createArchiveMetrics()
  const certificates = { ...certificate, ca: authority }
  const server = await startArchiveServer({ store, keys, certificates, listen, metrics, logger })
  const followed = followCertificate({
    files,
    current: certificate,
    use: renewed => server.follow({ ...renewed, ca: authority }),
    logger,
  })
  const health = await startHealth(flags.health, store, metrics.registry, logger)
  logger.info({ store: store.location, isConditional: store.isConditional, ...server.address }, 'the archive serves')
  await stopped
  followed.stop()
  await server.stop(stopGraceMs)
  await health?.stop()
  store.close()
  return 0
}

function addressOf(text: string): { host: string; port: number } {
  const found = /^(\[[0-9a-f:]+\]|[^:]+):([0-9]{1,5})$/i.exec(text)
  const port = Number(found?.[2])
  if (found?.[1] === undefined || port > 65_535) throw new UsageError('--listen must be HOST:PORT')
  return { host: found[1].replace(/^\[|\]$/g, ''), port }
}

async function startHealth(
  port: string | undefined,
  store: ObjectStore,
  registry: ReturnType<typeof createArchiveMetrics>['registry'],
  logger: Logger,
): Promise<HealthServer | undefined> {
  if (port === undefined) return undefined
  if (!/^[0-9]{1,5}$/.test(port) || Number(port) > 65_535) throw new UsageError('--health must be a port')
  return startHealthServer({
    port: Number(port),
    live: {},
    ready: {
      store: async () => ((await store.stat(keyCheckName)) === undefined ? `${keyCheckName} is missing` : undefined),
    },
    metrics: metricsPage(() => [registry, processMetrics()]),
    logger,
  })
}
