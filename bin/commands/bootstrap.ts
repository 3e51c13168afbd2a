/** `espalier bootstrap`: what a Kubernetes cluster must hold before the operator starts, or an upgrade goes on. */
import { type Logger, pino } from 'pino'
import { applyDefinitions } from '../../cluster/kubernetes/definitions.ts'
import { connectKubernetes } from '../../cluster/kubernetes/index.ts'
import { definitionOf } from '../../crds/definition.ts'
import { declarations } from '../../crds/index.ts'
import { bindNamespaces, namespacesNotAllowed } from '../../operator/bootstrap/bindings.ts'
import { ensureKeys, missingKeys } from '../../operator/bootstrap/index.ts'
import { changedShapes, type WantedSize, wantedSizes } from '../../operator/bootstrap/sizes.ts'
import { type Command, logLevel, parseFlags, UsageError } from '../command.ts'

const help = `Prepares a Kubernetes cluster for this version of Espalier: applies its CustomResourceDefinitions, and creates the
sealing key and the certificate authority while the cluster holds nothing of an earlier installation, and binds operator
and API in the namespaces of databases. Safe to run at any time, and again.

Usage: espalier bootstrap [--sizes JSON] [--kubeconfig FILE]

  --sizes JSON       the sizes that are to be applied: where one is there with another shape, nothing is changed
  --kubeconfig FILE  how to reach the cluster (default: the pod's own credentials, then ~/.kube/config)

Environment: ESPALIER_LOG, the log level (default: info).`

const fieldManager = 'espalier-bootstrap'

function readSizes(text: string): WantedSize[] {
  try {
    return wantedSizes.parse(JSON.parse(text))
  } catch (error) {
    throw new UsageError(`--sizes: is no list of sizes as JSON (${error instanceof Error ? error.name : 'unknown'})`)
  }
}

/** Before anything is changed. @throws UsageError */
async function requireFit(wanted: readonly WantedSize[], kubeconfig: string | undefined, logger: Logger) {
  const cluster = await connectKubernetes({ fieldManager, kubeconfig, logger })
  try {
    const changed = wanted.length === 0 ? [] : await changedShapes(cluster, wanted)
    const wrong = [...changed, ...(await namespacesNotAllowed(cluster))]
    if (wrong.length > 0) throw new UsageError(`${wrong.join('; ')}. Nothing has been changed`)
  } finally {
    await cluster.close()
  }
}

const command: Command = {
  summary: 'prepare a Kubernetes cluster: resource definitions and keys',
  help,
  async run(args) {
    const { kubeconfig, sizes } = parseFlags(args, { kubeconfig: { type: 'string' }, sizes: { type: 'string' } })
    const wanted = sizes === undefined ? [] : readSizes(sizes)
    const logger = pino({ level: logLevel('info') })
    await requireFit(wanted, kubeconfig, logger)
    const definitions = Object.values(declarations).map(definitionOf)
    await applyDefinitions(definitions, { fieldManager, kubeconfig })
    logger.info({ definitions: definitions.length }, 'the resource definitions are up to date')
    const cluster = await connectKubernetes({ fieldManager, kubeconfig, logger })
    try {
      const outcome = await ensureKeys(cluster)
      if (outcome.missing.length > 0) throw new UsageError(missingKeys(outcome))
      const { made } = outcome
      const bindings = await bindNamespaces(cluster)
      if (bindings > 0) logger.info({ bindings }, 'operator and API are bound in the namespaces of databases')
      logger.info({ made }, made.length > 0 ? 'keys were made: back them up' : 'the keys are there')
    } finally {
      await cluster.close()
    }
    return 0
  },
}
export default command
