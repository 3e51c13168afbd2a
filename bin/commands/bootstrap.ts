/**
 * `espalier bootstrap`: creates the objects that a Kubernetes cluster needs before the operator starts or is upgraded.
 */
import { type Logger, pino } from 'pino'
import { applyDefinitions } from '../../cluster/kubernetes/definitions.ts'
import { connectKubernetes } from '../../cluster/kubernetes/index.ts'
import { definitionOf } from '../../crds/definition.ts'
import { declarations } from '../../crds/index.ts'
import { bindNamespaces, namespacesNotAllowed } from '../../operator/bootstrap/bindings.ts'
import { ensureKeys, missingKeys } from '../../operator/bootstrap/index.ts'
import { changedShapes, type WantedSize, wantedSizes } from '../../operator/bootstrap/sizes.ts'
import { type Command, logLevel, parseFlags, UsageError } from '../command.ts'

const help = `Prepares a Kubernetes cluster for this version of Espalier: applies its CustomResourceDefinitions, creates the
sealing key and the certificate authority if there is no earlier installation, and creates the RoleBindings of operator
and API in the namespaces of databases. It can be run at any time, and repeatedly.

Usage: espalier bootstrap [--sizes JSON] [--kubeconfig FILE]

  --sizes JSON       the sizes to apply; if one exists with a different shape, the command fails and changes nothing
  --kubeconfig FILE  access to the cluster (default: the pod's own credentials, then ~/.kube/config)

Environment: ESPALIER_LOG, the log level (default: info).`

const fieldManager = 'espalier-bootstrap'

function readSizes(text: string): WantedSize[] {
  try {
    return wantedSizes.parse(JSON.parse(text))
  } catch (error) {
    throw new UsageError(`--sizes: must be a JSON list of sizes (${error instanceof Error ? error.name : 'unknown'})`)
  }
}

/** Checks sizes and namespaces before the command changes anything. @throws UsageError */
async function requireFit(wanted: readonly WantedSize[], kubeconfig: string | undefined, logger: Logger) {
  const cluster = await connectKubernetes({ fieldManager, kubeconfig, logger })
  try {
    const changed = wanted.length === 0 ? [] : await changedShapes(cluster, wanted)
    const wrong = [...changed, ...(await namespacesNotAllowed(cluster))]
    if (wrong.length > 0) throw new UsageError(`${wrong.join('; ')}. No changes were made`)
  } finally {
    await cluster.close()
  }
}

const command: Command = {
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
      if (bindings > 0) logger.info({ bindings }, 'the RoleBindings of operator and API are up to date')
      logger.info({ made }, made.length > 0 ? 'keys were created: back them up' : 'the keys exist already')
    } finally {
      await cluster.close()
    }
    return 0
  },
}
export default command
