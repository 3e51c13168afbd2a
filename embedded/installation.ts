/**
 * The embedded default: store, process runtime, gateway, operator and API in one process. Each part is the same code as
 * on Kubernetes; only the implementation of the `Cluster` port differs. The gateway runs in a separate thread. Parts
 * start in the order of their dependencies and stop in reverse order. If a part cannot start, the installation stops
 * the parts that already run.
 */
import { chmod, mkdir, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { JWK } from 'jose'
import type { Logger } from 'pino'
import { apiConfiguration } from '../api/configuration.ts'
import { type Api, startApi } from '../api/index.ts'
import { definitionOf } from '../crds/definition.ts'
import { declarations, defaultPgVersion, type PgVersion, pgVersions } from '../crds/index.ts'
import { operatorConfiguration } from '../operator/configuration.ts'
import { startOperator } from '../operator/index.ts'
import { issueServerCertificate } from '../operator/pki/index.ts'
import { archiveHost, startArchive } from './archive/process.ts'
import { bootstrap, readAuthority } from './bootstrap.ts'
import { gatewayHost } from './catalogue.ts'
import { followGatewayCertificates, gatewayNames, httpsNames } from './certificate.ts'
import { EmbeddedError } from './errors.ts'
import { type GatewayThread, startGatewayThread } from './gateway/thread.ts'
import { watchHome } from './home.ts'
import { assertPortFree, ephemeralPortsWarning } from './ports.ts'
import { keepRecords } from './rescue/keep.ts'
import { requireStore } from './rescue/lost.ts'
import { servicesImage } from './runtime/images/services.ts'
import {
  type Copies,
  createPostgresImages,
  type ImageResolver,
  imageHasPgvector,
  type Runtime,
  RuntimeError,
  startRuntime,
  withServicesImage,
} from './runtime/index.ts'
import { pathsOf, type Settings } from './settings.ts'
import { openStore, protections, type Store } from './store/index.ts'
import { audience, ensureTokenKey, issuer } from './tokens.ts'

export type Installation = {
  /** Base address of the API, without a path. */
  api: string
  /** The browsable API description. */
  docs: string
  /** Base address of the services, whose paths begin with the database's id. */
  https: string
  /** The metrics of operator, API and gateway. */
  metrics: string
  /** Whether copies of volumes share their blocks. */
  copies: Copies
  /** For tests and benchmarks: the underlying store. */
  store: Store
  /**
   * Resolves with the problem if the installation can no longer serve: its home directory is missing, or its gateway
   * has ended.
   */
  failed: Promise<string>
  stop(): Promise<void>
}

/** Runs the registered steps in reverse order. If a step fails, the other steps still run. */
class Teardown {
  readonly #steps: (() => Promise<void>)[] = []
  push(step: () => Promise<void>): void {
    this.#steps.push(step)
  }
  async run(): Promise<void> {
    const failures: unknown[] = []
    for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop()) {
      await step().catch((error: unknown) => failures.push(error))
    }
    if (failures.length > 0) throw new AggregateError(failures, 'not everything stopped cleanly')
  }
}

/** Creates a directory and its parents. Node's recursive mkdir never ends if a kernel file system refuses. */
async function makeDirectory(path: string): Promise<void> {
  const codeOf = (error: unknown) => (error instanceof Error && 'code' in error ? error.code : undefined)
  const make = () =>
    mkdir(path).catch(async (error: unknown) => {
      if (codeOf(error) !== 'EEXIST' || !(await stat(path)).isDirectory()) throw error
    })
  await make().catch(async (error: unknown) => {
    if (codeOf(error) !== 'ENOENT' || dirname(path) === path) throw error
    await makeDirectory(dirname(path))
    await make()
  })
}

/** Creates the home directory. The user that Postgres runs as can enter it; no other user can list it. */
async function makeHome({ home, runAs }: Settings): Promise<void> {
  try {
    await makeDirectory(home)
    await chmod(home, runAs === undefined ? 0o700 : 0o711)
  } catch (error) {
    const why = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
    throw new EmbeddedError(`cannot write to ${home} (${why}): set ESPALIER_HOME to a directory that you own`)
  }
}

/** The store's reserve for a full disk: enough for hundreds of deletions. */
const reserveBytes = 16 * 1024 * 1024

const fullMessage = (home: string): string =>
  `the disk of ${home} is full: delete databases, branches or backups, or free some space`

const postgresImage = (major: PgVersion): string => `postgres:${major}`

function imagesOf({ home, runAs: owner }: Settings): ImageResolver {
  return withServicesImage(createPostgresImages({ home, owner }), { home, owner, names: pathsOf(home).serviceNames })
}

/** Checks that a Postgres of the default version is installed. */
async function assertPostgres(images: ImageResolver): Promise<void> {
  try {
    await images(postgresImage(defaultPgVersion))
  } catch (error) {
    if (error instanceof RuntimeError) throw new EmbeddedError(error.message, { cause: error })
    throw error
  }
}

type ApiOptions = Parameters<typeof startApi>[0]
type OperatorOptions = Parameters<typeof startOperator>[0]

/** Shared by all steps of a start. Each step pushes the function that stops what it has started. */
type Start = {
  settings: Settings
  logger: Logger
  images: ImageResolver
  teardown: Teardown
}

/**
 * Starts an installation, new or with its existing data.
 * @throws EmbeddedError with one line for the user, for example: a port in use, no permission, another process with the
 * same home
 */
export async function startInstallation(
  settings: Settings,
  logger: Logger,
  images: ImageResolver = imagesOf(settings),
): Promise<Installation> {
  await assertCanStart(settings, logger, images)
  const teardown = new Teardown()
  try {
    return await startParts({ settings, logger, images, teardown })
  } catch (error) {
    await teardown.run().catch((failure: unknown) => logger.error({ err: failure }, 'stopping after a failed start'))
    throw error
  }
}

async function assertCanStart(settings: Settings, logger: Logger, images: ImageResolver): Promise<void> {
  if (process.platform !== 'linux') throw new EmbeddedError('the embedded default runs on Linux only')
  const { home, listenHost, apiPort, httpsPort, ports } = settings
  await makeHome(settings)
  await assertPortFree(listenHost, apiPort, 'ESPALIER_API_PORT')
  await assertPortFree(listenHost, httpsPort, 'ESPALIER_HTTPS_PORT')
  await assertPortFree(listenHost, ports.last, 'ESPALIER_PORTS')
  const warning = await ephemeralPortsWarning(ports)
  if (warning !== undefined) logger.warn(warning)
  requireStore(pathsOf(home))
  await assertPostgres(images)
}

async function startParts(start: Start): Promise<Installation> {
  const { settings, teardown } = start
  const { home, apiPort, httpsPort, ports } = settings
  const store = await startStore(start)
  const publicKey = await ensureTokenKey(home)
  // The gateway stops after the databases, so that it can send their clients why the session ends.
  const gateway = await startGateway(start, store)
  // The archive also stops after the databases, because Postgres archives while it shuts down.
  startArchiveOf(start, store)
  const runtime = await startPods(start, store, gateway)
  const watch = watchHome(home, [pathsOf(home).store, ...runtime.directories])
  teardown.push(async () => watch.stop())
  await startRecords(start, store, runtime)
  await gateway.started

  const disk = () => (store.isDiskFull() || runtime.isDiskFull() ? fullMessage(home) : undefined)
  let api: Api | undefined
  const hasPgvector = (version: PgVersion) => imageHasPgvector(start.images, postgresImage(version))
  await startControllers(start, store, {
    hasPgvector,
    otherChecks: { home: watch.check, gateway: gateway.check, disk },
    otherFigures: () => [gateway.figures, ...(api === undefined ? [] : [api.registry])],
  })
  const unready = () => watch.check() ?? gateway.check() ?? disk()
  api = await startHttp(start, store, {
    ...{ publicKey, unready, hasPgvector },
    resolve: target => runtime.resolve(target),
  })

  return {
    api: `http://${gatewayHost}:${apiPort}`,
    docs: `http://${gatewayHost}:${apiPort}/docs`,
    https: `https://${gatewayHost}:${httpsPort}`,
    metrics: `http://${gatewayHost}:${ports.last}/metrics`,
    copies: runtime.copies,
    store,
    failed: Promise.race([watch.whenMissing, gateway.failed]),
    stop: () => teardown.run(),
  }
}

async function startStore({ settings: { home, httpsPort, ports }, logger, teardown }: Start): Promise<Store> {
  const store = await openStore({
    directory: pathsOf(home).store,
    definitions: Object.values(declarations).map(definitionOf),
    reserveBytes,
    admissions: [protections],
    logger,
  })
  teardown.push(() => store.close())
  const databasePorts = { first: ports.first, last: ports.last - 1 }
  await bootstrap(store.connect('espalier-bootstrap'), { databasePorts, httpsPort })
  return store
}

async function startGateway({ settings, logger, teardown }: Start, store: Store): Promise<GatewayThread> {
  const authority = await readAuthority(store.connect('espalier-bootstrap'))
  const gateway = startGatewayThread({
    cluster: store.connect('espalier-gateway'),
    identity: 'embedded',
    listenHost: settings.listenHost,
    // The gateway uses both certificates until it has read those of the operator.
    certificate: issueServerCertificate(authority, gatewayNames, Date.now),
    https: {
      port: settings.httpsPort,
      certificates: [issueServerCertificate(authority, httpsNames, Date.now)],
      ownNames: gatewayNames.dnsNames,
    },
    logger: logger.child({ part: 'gateway' }),
  })
  teardown.push(() => gateway.stop({ drainMs: 0 }))
  const certificate = followGatewayCertificates({
    cluster: store.connect('espalier-gateway'),
    use: gateway.setCertificate,
    useForHttps: gateway.setHttpsCertificates,
    logger: logger.child({ part: 'gateway' }),
  })
  teardown.push(() => certificate.stop())
  return gateway
}

async function startPods(
  { settings: { home, runAs, pool }, logger, images, teardown }: Start,
  store: Store,
  gateway: GatewayThread,
): Promise<Runtime> {
  const runtime = await startRuntime({
    cluster: store.connect('espalier-runtime'),
    directory: pathsOf(home).runtime,
    namesFile: pathsOf(home).serviceNames,
    ...{ images, runAs, pool },
    logger: logger.child({ part: 'runtime' }),
  })
  teardown.push(() => runtime.stop())
  runtime.followEndpoints(gateway.setEndpoints)
  store.setLogSource((pod, options) => runtime.logs(pod, options))
  return runtime
}

function startArchiveOf({ settings: { home, archivePort }, logger, teardown }: Start, store: Store): void {
  const cluster = store.connect('espalier-archive')
  const archive = startArchive({
    ...{ cluster, port: archivePort, paths: pathsOf(home) },
    readTrust: () => readAuthority(cluster),
    logger: logger.child({ part: 'archive' }),
  })
  teardown.push(() => archive.stop())
}

async function startRecords({ logger, teardown }: Start, store: Store, runtime: Runtime): Promise<void> {
  const records = await keepRecords({
    cluster: store.connect('espalier-records'),
    directoryOf: runtime.volumeDirectory,
    logger: logger.child({ part: 'records' }),
  })
  teardown.push(() => records.stop())
}

async function startControllers(
  { settings: { listenHost, ports, archivePort, providers, importFrom }, logger, teardown }: Start,
  store: Store,
  options: Pick<OperatorOptions, 'otherChecks' | 'otherFigures' | 'hasPgvector'>,
): Promise<void> {
  const operator = await startOperator({
    cluster: store.connect('espalier-operator'),
    configuration: operatorConfiguration.parse({
      images: {
        postgres: Object.fromEntries(pgVersions.map(major => [major, postgresImage(major)])),
        services: servicesImage,
      },
      pods: { archive: { url: `https://${archiveHost}:${archivePort}` } },
      services: { baseUrls: providers },
      imports: { from: importFrom },
      leaderElection: false,
      http: { host: listenHost, port: ports.last },
      certificates: { gateway: gatewayNames },
    }),
    identity: 'embedded',
    ...options,
    logger,
  })
  teardown.push(() => operator.stop())
}

async function startHttp(
  { settings: { home, listenHost, apiPort, consoleDirectory }, logger, teardown }: Start,
  store: Store,
  { publicKey, ...options }: Pick<ApiOptions, 'unready' | 'hasPgvector' | 'resolve'> & { publicKey: JWK },
): Promise<Api> {
  const api = await startApi({
    cluster: store.connect('espalier-api'),
    configuration: apiConfiguration.parse({
      listen: { host: listenHost, port: apiPort },
      authentication: { publicKey, issuer, audience },
      auditFile: pathsOf(home).auditLog,
    }),
    ...options,
    consoleDirectory,
    logger: logger.child({ part: 'api' }),
  })
  teardown.push(() => api.stop())
  return api
}
