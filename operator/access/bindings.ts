/**
 * RoleBindings to the chart's ClusterRoles, in each namespace that contains databases. In other namespaces neither
 * operator nor API may read Secrets or logs, or create pods. Pure.
 */
import type { Draft, Namespace, RoleBinding } from '../../cluster/index.ts'
import { labels, managedByEspalier, systemNamespace, teardownFinalizer } from '../../crds/index.ts'
import { stamped } from '../objects/up-to-date.ts'

/**
 * Label of a namespace that belongs to no tenant: `true` permits databases in it. Only a cluster administrator sets it.
 */
export const databasesLabel = 'espalier.dev/databases'

/** Names of the RoleBindings of the operator and of the API. */
export const bindingNames = { operator: 'espalier-operator', api: 'espalier-api' } as const
type Part = keyof typeof bindingNames

export const bindingLabels = { [labels.managedBy]: managedByEspalier, [labels.component]: 'access' } as const

const tenantPrefix = 'espalier-t-'

/** Whether databases may be in the namespace. Checks the namespace's name, because any namespace can have the label. */
export const mayContainDatabases = ({ metadata }: Pick<Namespace, 'metadata'>): boolean =>
  metadata.name.startsWith(tenantPrefix)
    ? metadata.labels?.[labels.tenant] !== undefined
    : metadata.labels?.[databasesLabel] === 'true'

/** The operator's binding is deleted last, because the operator must remove finalizers in the namespace. */
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

/** Whether this binding gives the operator its rights. */
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
  `metadata.namespace: namespace ${namespace} belongs to no tenant, and Espalier has no rights in it. A cluster administrator can permit databases there with \`kubectl label namespace ${namespace} ${databasesLabel}=true\``
