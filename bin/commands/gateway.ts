/** `espalier gateway`: a gateway replica beside a Kubernetes cluster. */
import { readFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { pino } from 'pino'
import { connectKubernetes } from '../../cluster/kubernetes/index.ts'
import { startGateway } from '../../gateway/index.ts'
import { type Command, parseFlags, stopSignal, UsageError } from '../command.ts'

const help = `Runs a gateway replica of a Kubernetes cluster: one listener a database, its allowlist enforced.

Usage: espalier gateway --certificate FILE --key FILE [options]

  --certificate FILE  PEM certificate that denials are answered with
  --key FILE          its private key, PEM
  --listen HOST       what to listen on (default: 0.0.0.0)
  --kubeconfig FILE   how to reach the cluster (default: the pod's own credentials, then ~/.kube/config)
  --identity NAME     how this replica calls itself in its lease (default: the host's name)

Environment: ESPALIER_LOG, the log level (default: info).`

const command: Command = {
  summary: 'run a gateway replica of a Kubernetes cluster',
  help,
  async run(args) {
    const flags = parseFlags(args, {
      certificate: { type: 'string' },
      key: { type: 'string' },
      listen: { type: 'string', default: '0.0.0.0' },
      kubeconfig: { type: 'string' },
      identity: { type: 'string', default: hostname() },
    })
    if (flags.certificate === undefined || flags.key === undefined) {
      throw new UsageError('--certificate and --key are required')
    }
    const certificate = { cert: await readFile(flags.certificate, 'utf8'), key: await readFile(flags.key, 'utf8') }
    const logger = pino({ level: process.env.ESPALIER_LOG || 'info' })
    const stopped = stopSignal()
    const cluster = await connectKubernetes({ fieldManager: 'espalier-gateway', kubeconfig: flags.kubeconfig, logger })
    const gateway = await startGateway({
      cluster,
      identity: flags.identity,
      listenHost: flags.listen,
      certificate,
      resolve: ({ namespace, service, port }) => ({ host: `${service}.${namespace}.svc`, port }),
      logger,
    })
    await stopped
    await gateway.stop()
    await cluster.close()
    return 0
  },
}
export default command
