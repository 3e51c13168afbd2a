/** `espalier api`: the control-plane API beside a Kubernetes cluster. */
import { pino } from 'pino'
import { apiConfiguration } from '../../api/configuration.ts'
import { startApi } from '../../api/index.ts'
import { connectKubernetes } from '../../cluster/kubernetes/index.ts'
import { type Command, parseFlags, stopSignal, UsageError } from '../command.ts'
import { readConfiguration } from '../configuration.ts'

const help = `Serves the control-plane API of a Kubernetes cluster.

Usage: espalier api --configuration FILE [--kubeconfig FILE]

  --configuration FILE  YAML or JSON: listen, authentication, rateLimits, trustedProxies, auditFile (api/configuration.ts)
  --kubeconfig FILE     how to reach the cluster (default: the pod's own credentials, then ~/.kube/config)

Environment: ESPALIER_LOG, the log level (default: info).`

const command: Command = {
  summary: 'serve the control-plane API of a Kubernetes cluster',
  help,
  async run(args) {
    const flags = parseFlags(args, { configuration: { type: 'string' }, kubeconfig: { type: 'string' } })
    if (flags.configuration === undefined) throw new UsageError('--configuration is required')
    const configuration = await readConfiguration(flags.configuration, apiConfiguration)
    const logger = pino({ level: process.env.ESPALIER_LOG || 'info' })
    const stopped = stopSignal()
    const cluster = await connectKubernetes({ fieldManager: 'espalier-api', kubeconfig: flags.kubeconfig, logger })
    const api = await startApi({ cluster, configuration, logger })
    logger.info({ address: api.address }, 'the API is ready')
    await stopped
    await api.stop()
    await cluster.close()
    return 0
  },
}
export default command
