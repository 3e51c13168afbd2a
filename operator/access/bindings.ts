/**
 * Which of our processes may do what in a namespace that holds databases: RoleBindings to ClusterRoles of the chart. In
 * other namespaces neither operator nor API may read a Secret or a log, or create a pod. Pure.
 */
import type { Draft, Namespace, RoleBinding } from '../../cluster/index.ts'
import { labels, managedByEspalier, systemNamespace, teardownFinalizer } from '../../crds/index.ts'
import { stamped } from '../objects/up-to-date.ts'

/** On a namespace that is no tenant's: `true` lets it hold databases. Only an administrator of the cluster sets it. */
export const databasesLabel = 'espalier.dev/databases'

/** The operator's own, and the API's. */
export const bindingNames = { operator: 'espalier-operator', api: 'espalier-api' } as const
type Part = keyof typeof bindingNames

export const bindingLabels = { [labels.managedBy]: managedByEspalier, [labels.component]: 'access' } as const

const tenantPrefix = 'espalier-t-'

/** Whether databases may be in the namespace. The name counts, since a label can be on any namespace. */
export const mayHoldDatabases = ({ metadata }: Pick<Namespace, 'metadata'>): boolean =>
  metadata.name.startsWith(tenantPrefix)
    ? metadata.labels?.[labels.tenant] !== undefined
    : metadata.labels?.[databasesLabel] === 'true'

/** The operator's binding outlives a namespace's other objects, since the operator has to release those. */
const finalizersOf = (part: Part) => (part === 'operator' ? { finalizers: [teardownFinalizer] } : {})

const bindingDraft = (part: Part, namespace: string): Draft<'RoleBinding'> =>
  stamped({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'RoleBinding',
    metadata: { name: bindingNames[part], namespace, labels: bindingLabels, ...finalizersOf(part) },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: `${bindingNames[part]}-tenant` },
    subjects: [{ kind: 'ServiceAccount', name: bindingNames[part], namespace: systemNamespace }],
  })

export const bindingDrafts = (namespace: string): Draft<'RoleBinding'>[] => [
  bindingDraft('operator', namespace),
  bindingDraft('api', namespace),
]

/** Whether it lets the operator in. */
export const isOperatorBinding = ({ metadata }: Pick<RoleBinding, 'metadata'>): boolean =>
  metadata.name === bindingNames.operator

export const withoutFinalizer = (binding: RoleBinding): RoleBinding => ({
  ...binding,
  metadata: {
    ...binding.metadata,
    finalizers: binding.metadata.finalizers?.filter(finalizer => finalizer !== teardownFinalizer) ?? [],
  },
})

export const notServedMessage = (namespace: string): string =>
  `metadata.namespace: namespace ${namespace} is no tenant's, and Espalier has no rights in it: an administrator allows databases there by \`kubectl label namespace ${namespace} ${databasesLabel}=true\``
