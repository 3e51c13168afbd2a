/**
 * CustomResourceDefinitions on a real API server: applies them by server-side apply, and waits until the server serves
 * them. They are not among the kinds of `Cluster`, since only the first step of an installation uses them.
 */
import type { CustomResourceDefinition } from '../../crds/definition.ts'
import { ClusterError } from '../errors.ts'
import { findAccess } from './configuration.ts'
import type { KubernetesOptions } from './index.ts'
import { defaultLimits } from './limits.ts'
import { queryText } from './paths.ts'
import { refusalOf } from './status.ts'
import { type HttpAnswer, openTransport } from './transport.ts'

const everyMs = 250
const atMostMs = 30_000

type Established = { status?: { conditions?: { type: string; status: string; message?: string }[] } }

/** @throws ClusterError if the server refuses a definition, or does not serve it within 30 s */
export async function applyDefinitions(
  definitions: readonly CustomResourceDefinition[],
  { fieldManager, kubeconfig, limits }: Pick<KubernetesOptions, 'fieldManager' | 'kubeconfig' | 'limits'>,
): Promise<void> {
  const transport = openTransport(await findAccess(kubeconfig), { ...defaultLimits, ...limits })
  const pathOf = ({ metadata }: CustomResourceDefinition) =>
    `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${encodeURIComponent(metadata.name)}`
  const checked = ({ code, text, retryAfter }: HttpAnswer): string => {
    if (code < 200 || code >= 300) throw refusalOf(code, text, retryAfter)
    return text
  }
  const apply = async (definition: CustomResourceDefinition) =>
    checked(
      await transport.send({
        method: 'PATCH',
        path: `${pathOf(definition)}${queryText({ fieldManager, force: true, fieldValidation: 'Strict' })}`,
        body: { type: 'application/apply-patch+yaml', text: JSON.stringify(definition) },
      }),
    )
  const established = async (definition: CustomResourceDefinition) => {
    const deadline = Date.now() + atMostMs
    while (true) {
      const { status }: Established = JSON.parse(
        checked(await transport.send({ method: 'GET', path: pathOf(definition) })),
      )
      const conditions = status?.conditions ?? []
      if (conditions.some(({ type, status: value }) => type === 'Established' && value === 'True')) return
      const refused = conditions.find(({ type, status: value }) => type === 'NamesAccepted' && value === 'False')
      if (refused !== undefined || Date.now() >= deadline) {
        const why = refused?.message ?? 'it is not established yet'
        throw new ClusterError('Unavailable', `${definition.metadata.name} is not served: ${why}`)
      }
      await new Promise(resolve => setTimeout(resolve, everyMs))
    }
  }
  try {
    for (const definition of definitions) await apply(definition)
    await Promise.all(definitions.map(established))
  } finally {
    transport.close()
  }
}
