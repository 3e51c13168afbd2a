/** `espalier api`: serves the control-plane API of a Kubernetes cluster. */
import { pino } from 'pino'
import { apiConfiguration } from '../../api/configuration.ts'
import { consoleDirectory } from '../../api/console/files.ts'
import { startApi } from '../../api/index.ts'
import { connectKubernetes } from '../../cluster/kubernetes/index.ts'
import { followCertificate } from '../../server/certificate.ts'
import { startHealthServer } from '../../server/health.ts'
import { metricsPage, processMetrics } from '../../server/metrics.ts'
import { stopSignal } from '../../server/signals.ts'
import { type Command, logLevel, parseFlags, readCertificateFlags, readFlagFile, UsageError } from '../command.ts'
import { readConfiguration } from '../configuration.ts'

const help = `Serves the control-plane API of a Kubernetes cluster.

Usage: espalier api --configuration FILE [options]

  --configuration FILE  YAML or JSON: listen, http (metrics), authentication, pgVersions, rateLimits, idempotency, cors,
                        newTenants, trustedProxies, prometheus, auditFile, login (api/configuration.ts)
  --shared-secret FILE  the HMAC secret that verifies tokens, instead of one in the configuration
  --certificate FILE    PEM certificate for HTTPS; reloaded when it changes (default: plain HTTP)
  --key FILE            its private key, PEM
  --kubeconfig FILE     access to the cluster (default: the pod's own credentials, then ~/.kube/config)

Environment:
  ESPALIER_LOG          the log level (default: info)
  ESPALIER_CONSOLE_DIR  the files of the console (default: console/dist beside the program)`

const command: Command = {
  help,
  async run(args) {
    const flags = parseFlags(args, {
      configuration: { type: 'string' },
      'shared-secret': { type: 'string' },
      certificate: { type: 'string' },
      key: { type: 'string' },
      kubeconfig: { type: 'string' },
    })
    if (flags.configuration === undefined) throw new UsageError('--configuration is required')
    if ((flags.certificate === undefined) !== (flags.key === undefined))
      throw new UsageError('--certificate and --key must be given together')
    const secretFile = flags['shared-secret']
    const sharedSecret = secretFile === undefined ? undefined : await readFlagFile('--shared-secret', secretFile)
    const configuration = await readConfiguration(
      flags.configuration,
      apiConfiguration,
      sharedSecret === undefined ? {} : { authentication: { sharedSecret } },
    )
    const files =
      flags.certificate === undefined || flags.key === undefined
        ? undefined
        : { cert: flags.certificate, key: flags.key }
    const certificate = files && (await readCertificateFlags(files))

    const logger = pino({ level: logLevel('info') })
    const stopped = stopSignal()
    const cluster = await connectKubernetes({ fieldManager: 'espalier-api', kubeconfig: flags.kubeconfig, logger })
    const api = await startApi({
      ...{ cluster, configuration, certificate, logger },
      consoleDirectory: consoleDirectory(process.env),
    })
    const metrics =
      configuration.http &&
      (await startHealthServer({
        ...configuration.http,
        live: {},
        ready: {},
        metrics: metricsPage(() => [processMetrics(), api.registry]),
        logger,
      }))
    const following =
      files && certificate && followCertificate({ files, current: certificate, use: api.setCertificate, logger })
    logger.info({ address: api.address }, 'the API is ready')
    await stopped
    following?.stop()
    await api.stop()
    await metrics?.stop()
    await cluster.close()
    return 0
  },
}
export default command
