/**
 * The allowed and forbidden actions in an installation: checked against the chart's roles by `rights.test.ts`, and
 * against an API server by `e2e/kubernetes/rights.test.ts`.
 */
import type { Request } from './rbac.ts'

/** They represent the namespace of a tenant, a namespace without databases, and the system namespace. */
export const [ofTenant, ofOthers, ofSystem] = ['tenant', 'others', 'system'] as const
type Place = typeof ofTenant | typeof ofOthers | typeof ofSystem | undefined

type Right = Omit<Request, 'namespace'> & { namespace: Place; isAllowed: boolean }

const core = ''
const ours = 'espalier.dev'

/** Returns one line for each verb of each resource. `namespace` undefined: in the whole cluster. */
const lines = (
  account: string,
  isAllowed: boolean,
  namespaces: readonly Place[],
  resources: readonly [group: string, resource: string, verbs: string, name?: string][],
): Right[] =>
  namespaces.flatMap(namespace =>
    resources.flatMap(([group, resource, verbs, name]) =>
      verbs.split(' ').map(verb => ({ account, verb, group, resource, name, namespace, isAllowed })),
    ),
  )

const api = 'espalier-api'
const operator = 'espalier-operator'
const children: [string, string][] = [
  [core, 'services'],
  [core, 'configmaps'],
  ['apps', 'statefulsets'],
  ['apps', 'deployments'],
  ['networking.k8s.io', 'networkpolicies'],
  ['policy', 'poddisruptionbudgets'],
]

export const rights: readonly Right[] = [
  // The API returns passwords and logs of databases, and writes the keys of services. It may use no other Kubernetes
  // kinds.
  ...lines(
    api,
    true,
    [ofTenant],
    [
      [core, 'secrets', 'get', 'db-credentials'],
      [core, 'secrets', 'create'],
      [core, 'pods/log', 'get', 'db-1-0'],
      [core, 'pods', 'list'],
    ],
  ),
  ...lines(
    api,
    false,
    [ofTenant],
    [
      [core, 'secrets', 'list watch update patch delete'],
      [core, 'pods', 'get watch create update delete'],
      [core, 'pods/exec', 'create get'],
      ['apps', 'statefulsets', 'get list create update delete'],
      [core, 'persistentvolumeclaims', 'get list delete'],
    ],
  ),
  ...lines(
    api,
    false,
    [ofOthers, undefined],
    [
      [core, 'secrets', 'get list watch create update patch delete'],
      [core, 'pods/log', 'get'],
      [core, 'pods', 'get list create delete'],
    ],
  ),
  ...lines(
    api,
    true,
    [ofSystem],
    [
      [core, 'secrets', 'get', 'espalier-sealing-key'],
      [core, 'secrets', 'get', 'espalier-api-client'],
    ],
  ),
  ...lines(
    api,
    false,
    [ofSystem],
    [
      [core, 'secrets', 'get', 'espalier-ca'],
      [core, 'secrets', 'list watch create update patch delete'],
      [core, 'pods/log', 'get'],
      [core, 'pods', 'create delete'],
    ],
  ),
  ...lines(
    api,
    true,
    [ofTenant, undefined],
    [
      [ours, 'manageddatabases', 'get list watch create update delete'],
      [ours, 'branches', 'get list watch create update'],
      [ours, 'backups', 'get list watch create update delete'],
      [ours, 'tasks', 'list watch create'],
    ],
  ),
  ...lines(
    api,
    false,
    [ofTenant, undefined],
    [
      [ours, 'manageddatabases/status', 'update patch'],
      [ours, 'tasks', 'update delete'],
      [ours, 'restores', 'create update delete'],
      ['rbac.authorization.k8s.io', 'rolebindings', 'get list create update patch delete'],
      ['rbac.authorization.k8s.io', 'roles', 'get list create update bind escalate'],
    ],
  ),

  // The operator creates and changes children of databases in namespaces with its RoleBinding.
  ...lines(
    operator,
    true,
    [ofTenant],
    [
      ...children.map(([group, resource]): [string, string, string] => [
        group,
        resource,
        'get list watch create update patch delete',
      ]),
      [core, 'secrets', 'get list watch create update patch delete'],
      [core, 'persistentvolumeclaims', 'get list watch create update delete'],
      [core, 'pods', 'get list watch create update delete'],
      [core, 'resourcequotas', 'get list watch create patch'],
      ['snapshot.storage.k8s.io', 'volumesnapshots', 'get list watch create delete'],
    ],
  ),
  ...lines(
    operator,
    false,
    [ofTenant],
    [
      [core, 'pods', 'patch'],
      [core, 'pods/exec', 'create get'],
      [core, 'pods/log', 'get'],
      [core, 'persistentvolumeclaims', 'patch'],
      [core, 'serviceaccounts/token', 'create'],
      [ours, 'manageddatabases', 'create delete'],
      ['rbac.authorization.k8s.io', 'rolebindings', 'delete'],
      ['rbac.authorization.k8s.io', 'roles', 'create update patch escalate'],
    ],
  ),
  ...lines(
    operator,
    false,
    [ofOthers, undefined],
    [
      ...children.map(([group, resource]): [string, string, string] => [group, resource, 'create update patch delete']),
      [core, 'secrets', 'get list watch create update patch delete'],
      [core, 'pods', 'create update patch delete'],
      [core, 'pods/log', 'get'],
      [core, 'persistentvolumeclaims', 'create update patch delete'],
      [core, 'resourcequotas', 'create update patch delete'],
      ['snapshot.storage.k8s.io', 'volumesnapshots', 'create delete'],
    ],
  ),
  ...lines(
    operator,
    true,
    [ofSystem],
    [
      [core, 'secrets', 'get list watch create update patch delete'],
      [core, 'configmaps', 'get list watch create update patch delete'],
    ],
  ),
  ...lines(
    operator,
    false,
    [ofSystem],
    [
      [core, 'pods', 'create delete'],
      ['apps', 'statefulsets', 'create update patch delete'],
      ['apps', 'deployments', 'create update patch delete'],
    ],
  ),
  ...lines(
    operator,
    true,
    [undefined],
    [
      [core, 'namespaces', 'get list watch create patch delete'],
      [core, 'persistentvolumes', 'get list watch create update'],
      [core, 'nodes', 'get list'],
      ['rbac.authorization.k8s.io', 'rolebindings', 'list watch create update patch'],
      ['rbac.authorization.k8s.io', 'clusterroles', 'bind', 'espalier-operator-tenant'],
      ['rbac.authorization.k8s.io', 'clusterroles', 'bind', 'espalier-api-tenant'],
    ],
  ),
  ...lines(
    operator,
    false,
    [undefined],
    [
      [core, 'persistentvolumes', 'patch delete'],
      [core, 'nodes', 'watch update patch'],
      ['rbac.authorization.k8s.io', 'clusterroles', 'bind', 'cluster-admin'],
      ['rbac.authorization.k8s.io', 'clusterroles', 'create update patch escalate'],
      ['rbac.authorization.k8s.io', 'clusterrolebindings', 'create update patch delete'],
    ],
  ),
]
