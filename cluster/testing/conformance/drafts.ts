/** Objects for tests: the smallest valid object of every kind, plus fields that a test sets. */
import { apiVersion, type ObjectMeta, tenantHash } from '../../../crds/index.ts'
import type { Draft, KindName } from '../../index.ts'

type Meta = Partial<ObjectMeta>
type Spec<K extends KindName> = NonNullable<Draft<K>['spec']>

export function database(
  namespace: string,
  name: string,
  options: { spec?: Partial<Spec<'ManagedDatabase'>>; metadata?: Meta } = {},
): Draft<'ManagedDatabase'> {
  return {
    apiVersion,
    kind: 'ManagedDatabase',
    metadata: { ...options.metadata, namespace, name },
    spec: { region: 'local', size: { name: 'small', version: 1 }, pgVersion: '17', ...options.spec },
  }
}

export function branch(namespace: string, name: string, spec: Partial<Spec<'Branch'>> = {}): Draft<'Branch'> {
  return {
    apiVersion,
    kind: 'Branch',
    metadata: { namespace, name },
    spec: {
      databaseName: 'orders',
      databaseId: '6ba7b810-9dad-41d1-80b4-00c04fd430c8',
      region: 'local',
      size: { name: 'small', version: 1 },
      pgVersion: '17',
      ...spec,
    },
  }
}

export function size(name: string, spec: Partial<Spec<'Size'>> = {}): Draft<'Size'> {
  return {
    apiVersion,
    kind: 'Size',
    metadata: { name: `${name}-v1` },
    spec: {
      id: '6ba7b810-9dad-41d1-80b4-00c04fd430c8',
      name,
      version: 1,
      displayName: 'Small',
      shape: {
        qosClass: 'burstable',
        cpuRequest: '100m',
        cpuLimit: '1',
        memoryRequest: '256Mi',
        memoryLimit: '512Mi',
        storageSize: '1Gi',
        temporaryDataSize: '1Gi',
        sharedMemorySize: '64Mi',
        connections: 20,
        postgresSettings: { work_mem: '4MB' },
      },
      ...spec,
    },
  }
}

export const configMap = (
  namespace: string,
  name: string,
  data: Record<string, string> = {},
  metadata: Meta = {},
): Draft<'ConfigMap'> => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { ...metadata, namespace, name }, data })

type Container = NonNullable<NonNullable<Draft<'StatefulSet'>['spec']>['template']['spec']>['containers'][number]

/** A StatefulSet with zero replicas. */
export const statefulSet = (
  namespace: string,
  name: string,
  containers: Container[] = [{ name: 'main', image: 'nothing' }],
): Draft<'StatefulSet'> => ({
  apiVersion: 'apps/v1',
  kind: 'StatefulSet',
  metadata: { namespace, name },
  spec: {
    replicas: 0,
    serviceName: name,
    selector: { matchLabels: { name } },
    template: { metadata: { labels: { name } }, spec: { containers } },
  },
})

const databaseReference = { databaseName: 'orders', databaseId: '6ba7b810-9dad-41d1-80b4-00c04fd430c8' }

/**
 * The smallest valid object of every kind except Namespace and Node (tests cannot create a cluster's machines).
 * `namespace` is used only for namespaced kinds.
 */
export const smallest: {
  [K in Exclude<KindName, 'Namespace' | 'Node'>]: (namespace: string, name: string) => Draft<K>
} = {
  ManagedDatabase: (namespace, name) => database(namespace, name),
  Branch: (namespace, name) => branch(namespace, name),
  Backup: (namespace, name) => ({
    apiVersion,
    kind: 'Backup',
    metadata: { namespace, name },
    spec: { ...databaseReference, kind: 'hot' },
  }),
  Restore: (namespace, name) => ({
    apiVersion,
    kind: 'Restore',
    metadata: { namespace, name },
    spec: { ...databaseReference, target: { backupName: 'monday' } },
  }),
  Task: (namespace, name) => ({
    apiVersion,
    kind: 'Task',
    metadata: { namespace, name },
    spec: {
      name: 'create-managed',
      subject: { kind: 'database', id: databaseReference.databaseId, name: 'orders' },
      request: { anything: { goes: [1, 'two', null] } },
    },
  }),
  Size: (_namespace, name) => ({ ...size(name), metadata: { name: `${name}-v1` } }),
  Region: (_namespace, name) => ({
    apiVersion,
    kind: 'Region',
    metadata: { name },
    spec: { domain: 'db.example.com', gateway: { ports: { first: 15000, last: 15999 } } },
  }),
  Tenant: (_namespace, name) => ({
    apiVersion,
    kind: 'Tenant',
    metadata: { name: `t-${tenantHash(name)}` },
    spec: { tenantId: name },
  }),
  Pod: (namespace, name) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { namespace, name },
    spec: { containers: [{ name: 'main', image: 'nothing' }], nodeSelector: { 'espalier.dev/no-such-node': 'true' } },
  }),
  Service: (namespace, name) => ({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { namespace, name },
    spec: { clusterIP: 'None', selector: { name }, ports: [{ name: 'postgres', port: 5432, protocol: 'TCP' }] },
  }),
  Secret: (namespace, name) => ({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { namespace, name },
    type: 'Opaque',
    data: { password: Buffer.from('not a real one').toString('base64') },
  }),
  ConfigMap: (namespace, name) => configMap(namespace, name, { 'text.txt': 'Grüße, 世界' }),
  ResourceQuota: (namespace, name) => ({
    apiVersion: 'v1',
    kind: 'ResourceQuota',
    metadata: { namespace, name },
    spec: { hard: { 'count/configmaps': '5' } },
  }),
  PersistentVolumeClaim: (namespace, name) => ({
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { namespace, name },
    spec: {
      accessModes: ['ReadWriteOncePod'],
      // A class without volumes, because an unbound claim must not bind a volume that another test reserved by name.
      storageClassName: 'conformance-none',
      resources: { requests: { storage: '1Gi' } },
    },
  }),
  PersistentVolume: (_namespace, name) => ({
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name },
    spec: {
      capacity: { storage: '1Gi' },
      accessModes: ['ReadWriteOncePod'],
      persistentVolumeReclaimPolicy: 'Retain',
      // A class whose volumes no claim requests.
      storageClassName: 'conformance',
      csi: { driver: 'conformance.espalier.dev', volumeHandle: name },
    },
  }),
  Event: (namespace, name) => ({
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { namespace, name },
    involvedObject: { apiVersion, kind: 'ManagedDatabase', namespace, name: 'orders' },
    reason: 'Created',
    message: 'the database was created',
    type: 'Normal',
    count: 1,
    firstTimestamp: '2026-01-02T03:04:05Z',
    lastTimestamp: '2026-01-02T03:04:05Z',
    source: { component: 'conformance' },
  }),
  StatefulSet: (namespace, name) => statefulSet(namespace, name),
  Deployment: (namespace, name) => ({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { namespace, name },
    spec: {
      replicas: 0,
      selector: { matchLabels: { name } },
      template: { metadata: { labels: { name } }, spec: { containers: [{ name: 'main', image: 'nothing' }] } },
    },
  }),
  Job: (namespace, name) => ({
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { namespace, name },
    spec: {
      suspend: true,
      template: { spec: { restartPolicy: 'Never', containers: [{ name: 'main', image: 'nothing' }] } },
    },
  }),
  NetworkPolicy: (namespace, name) => ({
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { namespace, name },
    spec: {
      podSelector: { matchLabels: { name } },
      policyTypes: ['Ingress'],
      ingress: [{ from: [{ podSelector: {} }], ports: [{ protocol: 'TCP', port: 5432 }] }],
    },
  }),
  PodDisruptionBudget: (namespace, name) => ({
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    metadata: { namespace, name },
    spec: { maxUnavailable: 0, selector: { matchLabels: { name } } },
  }),
  RoleBinding: (namespace, name) => ({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'RoleBinding',
    metadata: { namespace, name },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'view' },
    subjects: [{ kind: 'ServiceAccount', name: 'reader', namespace }],
  }),
  Lease: (namespace, name) => ({
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { namespace, name },
    spec: {
      holderIdentity: 'one',
      leaseDurationSeconds: 15,
      acquireTime: '2026-01-02T03:04:05.000006Z',
      renewTime: '2026-01-02T03:04:05.123456Z',
    },
  }),
  VolumeSnapshot: (namespace, name) => ({
    apiVersion: 'snapshot.storage.k8s.io/v1',
    kind: 'VolumeSnapshot',
    metadata: { namespace, name },
    spec: { source: { persistentVolumeClaimName: 'data' } },
  }),
}
