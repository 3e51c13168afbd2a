/**
 * The embedded default: store, process runtime, gateway, operator and API in one process, each the same code as on
 * Kubernetes but for what stands behind the `Cluster` port. The gateway has a thread of its own. Parts start in the order in which each needs the one
 * before and stop in reverse; where one cannot start, those already running are stopped again.
 */
import { chmod, mkdir, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Logger } from 'pino'
import { apiConfiguration } from '../api/configuration.ts'
import { type Api, startApi } from '../api/index.ts'
import { definitionOf } from '../crds/definition.ts'
import { declarations, defaultPgVersion, type PgVersion, pgVersions } from '../crds/index.ts'
import { operatorConfiguration } from '../operator/configuration.ts'
import { startOperator } from '../operator/index.ts'
import { issueServerCertificate } from '../operator/pki/index.ts'
import { bootstrap, readAuthority } from './bootstrap.ts'
import { gatewayHost } from './catalog.ts'
import { followGatewayCertificate, gatewayNames } from './certificate.ts'
import { EmbeddedError } from './errors.ts'
import { startGatewayThread } from './gateway/thread.ts'
import { watchHome } from './home.ts'
import { assertPortFree, ephemeralPortsWarning } from './ports.ts'
import { keepRecords } from './rescue/keep.ts'
import { requireStore } from './rescue/lost.ts'
import { type Copies, createPostgresImages, type ImageResolver, RuntimeError, startRuntime } from './runtime/index.ts'
import { pathsOf, type Settings } from './settings.ts'
import { openStore, protections, type Store } from './store/index.ts'
import { audience, ensureTokenKey, issuer } from './tokens.ts'

export type Installation = {
  /** Base address of the API, without a path. */
  api: string
  /** The browsable API description. */
  docs: string
  /** The metrics of operator, API and gateway. */
  metrics: string
  /** Whether copies of volumes share their blocks. */
  copies: Copies
  /** For tests and benchmarks: the store behind it all. */
  store: Store
  /** Resolves with what is wrong if the installation cannot serve any more: its home is gone, or its gateway has ended. */
  failed: Promise<string>
  stop(): Promise<void>
}

/** Stops what was pushed, last first; one that fails does not keep the others running. */
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

/** Makes a directory and those above it. (Node's own recursive mkdir never ends where a kernel file system refuses.) */
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

/** The home must let the user that Postgres runs as pass through, and nobody else look around. */
async function makeHome({ home, runAs }: Settings): Promise<void> {
  try {
    await makeDirectory(home)
    await chmod(home, runAs === undefined ? 0o700 : 0o711)
  } catch (error) {
    const why = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
    throw new EmbeddedError(`cannot write to ${home} (${why}): set ESPALIER_HOME to a directory of yours`)
  }
}

/** Kept on the disk, so that databases can be deleted when it is full: hundreds of deletions. */
const reserveBytes = 16 * 1024 * 1024

const fullMessage = (home: string): string =>
  `the disk of ${home} is full: delete databases, branches or backups, or free some space`

const postgresImage = (major: PgVersion): string => `postgres:${major}`

/** Without a server for the default version there is nothing to try. */
async function assertPostgres(images: ImageResolver): Promise<void> {
  try {
    await images(postgresImage(defaultPgVersion))
  } catch (error) {
    if (error instanceof RuntimeError) throw new EmbeddedError(error.message, { cause: error })
    throw error
  }
}

/**
 * Starts an installation, new or with the data it had.
 * @throws EmbeddedError with one line for the user: a port taken, no permission, another process on the same home
 */
export async function startInstallation(
  settings: Settings,
  logger: Logger,
  images: ImageResolver = createPostgresImages({ home: settings.home, owner: settings.runAs }),
): Promise<Installation> {
  if (process.platform !== 'linux') throw new EmbeddedError('the embedded default runs on Linux only')
  const { home, listenHost, apiPort, ports, runAs, pool } = settings
  const databasePorts = { first: ports.first, last: ports.last - 1 }
  await makeHome(settings)
  await assertPortFree(listenHost, apiPort, 'ESPALIER_API_PORT')
  await assertPortFree(listenHost, ports.last, 'ESPALIER_PORTS')
  const warning = await ephemeralPortsWarning(ports)
  if (warning !== undefined) logger.warn(warning)
  const paths = pathsOf(home)
  requireStore(paths)
  await assertPostgres(images)

  const teardown = new Teardown()
  try {
    const store = await openStore({
      directory: paths.store,
      definitions: Object.values(declarations).map(definitionOf),
      reserveBytes,
      admissions: [protections],
      logger,
    })
    teardown.push(() => store.close())
    await bootstrap(store.connect('espalier-bootstrap'), databasePorts)
    const publicKey = await ensureTokenKey(home)

    // The gateway stops after the databases, so that their clients read why the session ends.
    let api: Api | undefined
    const authority = await readAuthority(store.connect('espalier-bootstrap'))
    const gateway = startGatewayThread({
      cluster: store.connect('espalier-gateway'),
      identity: 'embedded',
      listenHost,
      // Until the operator's is read, which then is kept fresh.
      certificate: issueServerCertificate(authority, gatewayNames, Date.now),
      logger: logger.child({ part: 'gateway' }),
    })
    teardown.push(() => gateway.stop({ drainMs: 0 }))
    const certificate = followGatewayCertificate({
      cluster: store.connect('espalier-gateway'),
      use: gateway.setCertificate,
      logger: logger.child({ part: 'gateway' }),
    })
    teardown.push(() => certificate.stop())

    const started = await startRuntime({
      cluster: store.connect('espalier-runtime'),
      directory: paths.runtime,
      images,
      ...{ runAs, pool },
      logger: logger.child({ part: 'runtime' }),
    })
    teardown.push(() => started.stop())
    started.followEndpoints(gateway.setEndpoints)
    const watch = watchHome(home, [paths.store, ...started.directories])
    teardown.push(async () => watch.stop())
    const disk = () => (store.isDiskFull() || started.isDiskFull() ? fullMessage(home) : undefined)
    store.setLogSource((pod, options) => started.logs(pod, options))
    const records = await keepRecords({
      cluster: store.connect('espalier-records'),
      directoryOf: started.volumeDirectory,
      logger: logger.child({ part: 'records' }),
    })
    teardown.push(() => records.stop())

    await gateway.started
    const operator = await startOperator({
      cluster: store.connect('espalier-operator'),
      configuration: operatorConfiguration.parse({
        images: { postgres: Object.fromEntries(pgVersions.map(major => [major, postgresImage(major)])) },
        leaderElection: false,
        http: { host: listenHost, port: ports.last },
        certificates: { gateway: gatewayNames },
      }),
      identity: 'embedded',
      otherChecks: { home: watch.check, gateway: gateway.check, disk },
      otherFigures: () => [gateway.figures, ...(api === undefined ? [] : [api.registry])],
      logger,
    })
    teardown.push(() => operator.stop())

    const listening = await startApi({
      cluster: store.connect('espalier-api'),
      configuration: apiConfiguration.parse({
        listen: { host: listenHost, port: apiPort },
        authentication: { publicKey, issuer, audience },
        auditFile: paths.auditLog,
      }),
      unready: () => watch.check() ?? gateway.check() ?? disk(),
      resolve: target => started.resolve(target),
      logger: logger.child({ part: 'api' }),
    })
    api = listening
    teardown.push(() => listening.stop())

    return {
      api: `http://${gatewayHost}:${apiPort}`,
      docs: `http://${gatewayHost}:${apiPort}/docs`,
      metrics: `http://${gatewayHost}:${ports.last}/metrics`,
      copies: started.copies,
      store,
      failed: Promise.race([watch.gone, gateway.failed]),
      stop: () => teardown.run(),
    }
  } catch (error) {
    await teardown.run().catch((failure: unknown) => logger.error({ err: failure }, 'stopping after a failed start'))
    throw error
  }
}
