/** `espalier archive`: keeps the WAL of databases in an S3 bucket or a directory. */
import { type Logger, pino } from 'pino'
import { ArchiveError } from '../../archive/errors.ts'
import { checkKey } from '../../archive/key-check.ts'
import { type ArchiveKeys, archiveKey } from '../../archive/object/key.ts'
import { createArchiveMetrics } from '../../archive/server/metrics.ts'
import { startArchiveServer } from '../../archive/server/server.ts'
import { openDirectoryStore } from '../../archive/store/directory.ts'
import type { ObjectStore } from '../../archive/store/store.ts'
import { followCertificate } from '../../server/certificate.ts'
import { type HealthServer, startHealthServer } from '../../server/health.ts'
import { metricsPage, processMetrics } from '../../server/metrics.ts'
import { stopSignal } from '../../server/signals.ts'
import { type Command, logLevel, parseFlags, readCertificateFlags, readFlagFile, UsageError } from '../command.ts'

const help = `Keeps the WAL of databases, compressed and encrypted, in an S3 bucket or a directory.

Usage: espalier archive --store URL --key-file FILE --certificate FILE --key FILE --client-authority FILE [options]

  --store URL              s3://BUCKET/PREFIX or file:///DIRECTORY
  --key-file FILE          the keys of the archive: 32 bytes in base64 a line. New objects are encrypted with the first;
                           the others are of older objects. Without them nothing in the archive can be read
  --certificate FILE       the certificate of this server, PEM
  --key FILE               its private key, PEM
  --client-authority FILE  the authority of clients' certificates, PEM
  --listen HOST:PORT       where to listen (default: 127.0.0.1:8443)
  --health PORT            serves /healthz, /readyz and /metrics there
  --s3-endpoint URL        the S3 server, if it is not AWS
  --s3-region NAME         its region (default: us-east-1)
  --s3-path-style          the bucket is in the path, and not in the host name
  --s3-authority FILE      the authority of the S3 server's certificate, PEM, in place of the system's

Access keys of S3 come from where the AWS SDK finds them: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, files, or the metadata service.

Clients show a certificate of the authority with the URI urn:espalier:archive:<database id>:<incarnation>, and reach
/v1/<database id>/<incarnation>/wal and what is below it: PUT, GET and HEAD of a WAL file, GET of the list.

Environment: ESPALIER_LOG, the log level (default: info).`

const stopGraceMs = 20_000

const command: Command = {
  summary: 'keep the WAL of databases in an S3 bucket or a directory',
  help,
  async run(args) {
    const flags = parseFlags(args, {
      store: { type: 'string' },
      'key-file': { type: 'string' },
      certificate: { type: 'string' },
      key: { type: 'string' },
      'client-authority': { type: 'string' },
      listen: { type: 'string', default: '127.0.0.1:8443' },
      health: { type: 'string' },
      's3-endpoint': { type: 'string' },
      's3-region': { type: 'string', default: 'us-east-1' },
      's3-path-style': { type: 'boolean', default: false },
      's3-authority': { type: 'string' },
    })
    const files = { cert: required(flags, 'certificate'), key: required(flags, 'key') }
    const listen = addressOf(flags.listen)
    const keys = keysOf(await readFlagFile('--key-file', required(flags, 'key-file')))
    const authority = await readFlagFile('--client-authority', required(flags, 'client-authority'))
    const certificate = await readCertificateFlags(files)
    const logger = pino({ level: logLevel('info') })
    const stopped = stopSignal()
    const store = await explained(() => openStore(required(flags, 'store'), flags))
    await explained(() => checkKey(store, keys))
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
  },
}
export default command

type Flags = {
  's3-endpoint'?: string | undefined
  's3-region': string
  's3-path-style': boolean
  's3-authority'?: string | undefined
}

function required<Name extends string>(flags: { readonly [name in Name]?: string | undefined }, name: Name): string {
  const value = flags[name]
  if (value === undefined || value === '') throw new UsageError(`--${name} is required`)
  return value
}

function addressOf(text: string): { host: string; port: number } {
  const found = /^(\[[0-9a-f:]+\]|[^:]+):([0-9]{1,5})$/i.exec(text)
  const port = Number(found?.[2])
  if (found?.[1] === undefined || port > 65_535) throw new UsageError('--listen must be HOST:PORT')
  return { host: found[1].replace(/^\[|\]$/g, ''), port }
}

function keysOf(text: string): ArchiveKeys {
  const lines = text.split('\n').filter(line => line.trim() !== '')
  const [current, ...previous] = lines.map((line, index) => {
    const bytes = Buffer.from(line.trim(), 'base64')
    // The line is a secret: the error has its number alone.
    if (bytes.length !== 32 || bytes.toString('base64') !== line.trim())
      throw new UsageError(`--key-file: line ${index + 1} must be 32 bytes in base64`)
    return archiveKey(bytes)
  })
  if (current === undefined) throw new UsageError('--key-file: has no key; `openssl rand -base64 32` makes one')
  return { current, previous }
}

async function openStore(url: string, flags: Flags): Promise<ObjectStore> {
  const { protocol, host, pathname } = URL.parse(url) ?? { protocol: '', host: '', pathname: '' }
  const path = pathname.replace(/\/+$/, '')
  if (protocol === 'file:' && host === '' && path !== '') return openDirectoryStore(decodeURIComponent(path))
  if (protocol !== 's3:' || host === '') throw new UsageError('--store must be s3://BUCKET/PREFIX or file:///DIRECTORY')
  // The SDK is loaded only where a bucket is used.
  const { openS3Store } = await import('../../archive/store/s3.ts')
  const authorityFile = flags['s3-authority']
  return openS3Store({
    bucket: host,
    prefix: path.replace(/^\/+/, ''),
    endpoint: flags['s3-endpoint'],
    region: flags['s3-region'],
    pathStyle: flags['s3-path-style'],
    authority: authorityFile === undefined ? undefined : await readFlagFile('--s3-authority', authorityFile),
  })
}

/** A fault of the store or of the key is one that the user can repair. */
async function explained<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    throw error instanceof ArchiveError ? new Error(error.message) : error
  }
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
    ready: { store: async () => ((await store.stat('key-check')) === undefined ? 'key-check is missing' : undefined) },
    metrics: metricsPage(() => [registry, processMetrics()]),
    logger,
  })
}
