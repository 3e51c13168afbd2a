/** `espalier api`: the control-plane API beside a Kubernetes cluster. */
import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { pino } from 'pino'
import { apiConfiguration } from '../../api/configuration.ts'
import { startApi } from '../../api/index.ts'
import { connectKubernetes } from '../../cluster/kubernetes/index.ts'
import { followCertificate, readCertificate } from '../../server/certificate.ts'
import { startHealthServer } from '../../server/health.ts'
import { metricsPage, processMetrics } from '../../server/metrics.ts'
import { stopSignal } from '../../server/signals.ts'
import { type Command, parseFlags, UsageError } from '../command.ts'
import { readConfiguration } from '../configuration.ts'

const help = `Serves the control-plane API of a Kubernetes cluster.

Usage: espalier api --configuration FILE [options]

  --configuration FILE  YAML or JSON: listen, http (metrics), authentication, pgVersions, rateLimits, newTenants,
                        trustedProxies, auditFile (api/configuration.ts)
  --shared-secret FILE  the HMAC secret that tokens are verified with, in place of one in the configuration
  --certificate FILE    PEM certificate to serve HTTPS with; read again when it changes (default: plain HTTP)
  --key FILE            its private key, PEM
  --kubeconfig FILE     how to reach the cluster (default: the pod's own credentials, then ~/.kube/config)

Environment: ESPALIER_LOG, the log level (default: info).`

const unreadable = (flag: string, path: string) => (error: NodeJS.ErrnoException) => {
  throw new UsageError(`${flag}: cannot read ${basename(path)} (${error.code})`)
}

const command: Command = {
  summary: 'serve the control-plane API of a Kubernetes cluster',
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
      throw new UsageError('--certificate and --key go together')
    const secretFile = flags['shared-secret']
    const sharedSecret =
      secretFile === undefined
        ? undefined
        : await readFile(secretFile, 'utf8').catch(unreadable('--shared-secret', secretFile))
    const configuration = await readConfiguration(
      flags.configuration,
      apiConfiguration,
      sharedSecret === undefined ? {} : { authentication: { sharedSecret } },
    )
    const files =
      flags.certificate === undefined || flags.key === undefined
        ? undefined
        : { cert: flags.certificate, key: flags.key }
    const certificate = files && (await readCertificate(files).catch(unreadable('--certificate', files.cert)))

    const logger = pino({ level: process.env.ESPALIER_LOG || 'info' })
    const stopped = stopSignal()
    const cluster = await connectKubernetes({ fieldManager: 'espalier-api', kubeconfig: flags.kubeconfig, logger })
    const api = await startApi({ cluster, configuration, certificate, logger })
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
