/** Runs the service in several processes if `server-workers` is above 1. */
import { startWorkers, type Workers } from '../process/supervisor.ts'
import { serveAsWorker } from '../process/workers.ts'
import { describeConfiguration, loadConfiguration } from './configuration/index.ts'
import { adminListenAddress, type ReloadScope, type RestOptions, startRest } from './index.ts'

/** Serves as a worker until `stopped` returns the exit code. */
export const serveRestAsWorker = (options: RestOptions, stopped: Promise<number>): Promise<number> =>
  serveAsWorker<ReloadScope>(share => startRest({ ...options, ...share, admin: false }), stopped)

/**
 * Starts the workers and restarts them. Resolves when one worker listens.
 * @throws ConfigurationError, ConfigurationSyntaxError; listen errors of the admin server; Error if a worker ends
 *   before any worker has listened
 */
export async function startRestWorkers({
  sources,
  logger,
  onLost,
}: Pick<RestOptions, 'sources' | 'logger' | 'onLost'>): Promise<Workers<ReloadScope>> {
  const configuration = loadConfiguration(sources())
  const { dbPoolAutomaticRecovery } = configuration
  return startWorkers({
    workers: configuration.serverWorkers,
    poolSize: configuration.dbPool,
    configuration: configuration.adminServerConfigEnabled ? describeConfiguration(configuration) : undefined,
    hasSchemaCache: true,
    admin: adminListenAddress(configuration),
    socketPath: configuration.serverUnixSocket,
    logger,
    isLost: code => code === 1 && !dbPoolAutomaticRecovery,
    ...(onLost === undefined ? {} : { onLost }),
  })
}
