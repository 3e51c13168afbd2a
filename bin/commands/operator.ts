/** `espalier operator`: runs the operator of a Kubernetes cluster. */
import { hostname } from 'node:os'
import { pino } from 'pino'
import { connectKubernetes } from '../../cluster/kubernetes/index.ts'
import { followServerClock } from '../../operator/clock/readings.ts'
import { operatorConfiguration } from '../../operator/configuration.ts'
import { startOperator } from '../../operator/index.ts'
import { whileFilling } from '../../server/heap.ts'
import { stopSignal } from '../../server/signals.ts'
import { type Command, logLevel, parseFlags, UsageError } from '../command.ts'
import { readConfiguration } from '../configuration.ts'

const help = `Runs the operator of a Kubernetes cluster. Several replicas may run; one is the leader.

Usage: espalier operator --configuration FILE [--kubeconfig FILE] [--identity NAME]

  --configuration FILE  YAML or JSON: images, leaderElection, http, deadlines, workers (operator/configuration.ts)
  --kubeconfig FILE     access to the cluster (default: the pod's own credentials, then ~/.kube/config)
  --identity NAME       the name of this replica in the lease (default: the host's name)

Environment: ESPALIER_LOG, the log level (default: info).`

const command: Command = {
  help,
  async run(args) {
    const flags = parseFlags(args, {
      configuration: { type: 'string' },
      kubeconfig: { type: 'string' },
      identity: { type: 'string', default: hostname() },
    })
    if (flags.configuration === undefined) throw new UsageError('--configuration is required')
    const configuration = await readConfiguration(flags.configuration, operatorConfiguration)
    const logger = pino({ level: logLevel('info') })
    const stopped = stopSignal()
    const server = followServerClock()
    const cluster = await connectKubernetes({
      fieldManager: 'espalier-operator',
      kubeconfig: flags.kubeconfig,
      logger,
      onDate: server.received,
    })
    const operator = await startOperator({
      cluster,
      configuration,
      identity: flags.identity,
      logger,
      serverNow: server.now,
    })
    // The promise rejects if the operator stops before its caches are filled. The caches log this error themselves.
    whileFilling(operator.synced()).catch(() => {})
    await stopped
    await operator.stop()
    await cluster.close()
    return 0
  },
}
export default command
