/**
 * Every kind that Espalier reads or writes, its own kinds and those of Kubernetes: its TypeScript type, and its path on
 * the API server. `Cluster` uses these names for kinds.
 */
import type {
  CoreV1Event,
  V1ConfigMap,
  V1Deployment,
  V1Job,
  V1Lease,
  V1Namespace,
  V1NetworkPolicy,
  V1NetworkPolicyIngressRule,
  V1NetworkPolicyPeer,
  V1NetworkPolicySpec,
  V1Node,
  V1PersistentVolume,
  V1PersistentVolumeClaim,
  V1Pod,
  V1PodDisruptionBudget,
  V1ResourceQuota,
  V1RoleBinding,
  V1Secret,
  V1Service,
  V1StatefulSet,
} from '@kubernetes/client-node'
import {
  apiVersion,
  type Backup,
  type Branch,
  declarations,
  type ManagedDatabase,
  type ObjectMeta,
  type Region,
  type Restore,
  type Size,
  type Task,
  type Tenant,
} from '../crds/index.ts'

/** A value in its JSON form: where the client library's types have `Date`, JSON has RFC 3339 text. */
export type Json<T> = T extends Date ? string : T extends object ? { [K in keyof T]: Json<T[K]> } : T

type BuiltIn<T, ApiVersion extends string, Kind extends string> = Omit<Json<T>, 'apiVersion' | 'kind' | 'metadata'> & {
  apiVersion: ApiVersion
  kind: Kind
  metadata: ObjectMeta
}

export type Namespace = BuiltIn<V1Namespace, 'v1', 'Namespace'>
/** Espalier only reads Nodes, and only if a pod's status is in doubt. */
export type Node = BuiltIn<V1Node, 'v1', 'Node'>
export type Pod = BuiltIn<V1Pod, 'v1', 'Pod'>
export type ResourceQuota = BuiltIn<V1ResourceQuota, 'v1', 'ResourceQuota'>
export type Service = BuiltIn<V1Service, 'v1', 'Service'>
export type Secret = BuiltIn<V1Secret, 'v1', 'Secret'>
export type ConfigMap = BuiltIn<V1ConfigMap, 'v1', 'ConfigMap'>
export type PersistentVolumeClaim = BuiltIn<V1PersistentVolumeClaim, 'v1', 'PersistentVolumeClaim'>
export type PersistentVolume = BuiltIn<V1PersistentVolume, 'v1', 'PersistentVolume'>
export type Event = BuiltIn<CoreV1Event, 'v1', 'Event'>
export type StatefulSet = BuiltIn<V1StatefulSet, 'apps/v1', 'StatefulSet'>
export type Deployment = BuiltIn<V1Deployment, 'apps/v1', 'Deployment'>
export type Job = BuiltIn<V1Job, 'batch/v1', 'Job'>
export type Lease = BuiltIn<V1Lease, 'coordination.k8s.io/v1', 'Lease'>
/** The permissions of Espalier's processes in a namespace. */
export type RoleBinding = BuiltIn<V1RoleBinding, 'rbac.authorization.k8s.io/v1', 'RoleBinding'>
export type PodDisruptionBudget = BuiltIn<V1PodDisruptionBudget, 'policy/v1', 'PodDisruptionBudget'>

type IngressRule = Omit<Json<V1NetworkPolicyIngressRule>, '_from'> & { from?: Json<V1NetworkPolicyPeer>[] }
/** The client library calls a rule's `from` `_from`. */
export type NetworkPolicy = Omit<BuiltIn<V1NetworkPolicy, 'networking.k8s.io/v1', 'NetworkPolicy'>, 'spec'> & {
  spec?: Omit<Json<V1NetworkPolicySpec>, 'ingress'> & { ingress?: IngressRule[] }
}

/** snapshot.storage.k8s.io/v1, with only the fields that Espalier uses. */
export type VolumeSnapshot = {
  apiVersion: 'snapshot.storage.k8s.io/v1'
  kind: 'VolumeSnapshot'
  metadata: ObjectMeta
  spec: { volumeSnapshotClassName?: string; source: { persistentVolumeClaimName: string } }
  status?: {
    boundVolumeSnapshotContentName?: string
    creationTime?: string
    readyToUse?: boolean
    restoreSize?: string
    error?: { time?: string; message?: string }
  }
}

export type Kinds = {
  ManagedDatabase: ManagedDatabase
  Branch: Branch
  Backup: Backup
  Restore: Restore
  Task: Task
  Size: Size
  Region: Region
  Tenant: Tenant
  Namespace: Namespace
  Node: Node
  Pod: Pod
  ResourceQuota: ResourceQuota
  Service: Service
  Secret: Secret
  ConfigMap: ConfigMap
  PersistentVolumeClaim: PersistentVolumeClaim
  PersistentVolume: PersistentVolume
  Event: Event
  StatefulSet: StatefulSet
  Deployment: Deployment
  Job: Job
  Lease: Lease
  NetworkPolicy: NetworkPolicy
  PodDisruptionBudget: PodDisruptionBudget
  RoleBinding: RoleBinding
  VolumeSnapshot: VolumeSnapshot
}
export type KindName = keyof Kinds
export type AnyObject = Kinds[KindName]

/** Where and how the API server serves a kind. */
export type KindInfo = { apiVersion: string; plural: string; namespaced: boolean; statusSubresource: boolean }

const builtIn = (kindApiVersion: string, plural: string, options: Partial<KindInfo> = {}): KindInfo => ({
  apiVersion: kindApiVersion,
  plural,
  namespaced: true,
  statusSubresource: true,
  ...options,
})

const espalierKinds = Object.fromEntries(
  Object.entries(declarations).map(([kind, { plural, scope }]) => [
    kind,
    { apiVersion, plural, namespaced: scope === 'Namespaced', statusSubresource: true },
  ]),
) as Record<keyof typeof declarations, KindInfo>

export const kindInfo: Record<KindName, KindInfo> = {
  ...espalierKinds,
  Namespace: builtIn('v1', 'namespaces', { namespaced: false }),
  Node: builtIn('v1', 'nodes', { namespaced: false }),
  Pod: builtIn('v1', 'pods'),
  ResourceQuota: builtIn('v1', 'resourcequotas'),
  Service: builtIn('v1', 'services'),
  Secret: builtIn('v1', 'secrets', { statusSubresource: false }),
  ConfigMap: builtIn('v1', 'configmaps', { statusSubresource: false }),
  PersistentVolumeClaim: builtIn('v1', 'persistentvolumeclaims'),
  PersistentVolume: builtIn('v1', 'persistentvolumes', { namespaced: false }),
  Event: builtIn('v1', 'events', { statusSubresource: false }),
  StatefulSet: builtIn('apps/v1', 'statefulsets'),
  Deployment: builtIn('apps/v1', 'deployments'),
  Job: builtIn('batch/v1', 'jobs'),
  Lease: builtIn('coordination.k8s.io/v1', 'leases', { statusSubresource: false }),
  NetworkPolicy: builtIn('networking.k8s.io/v1', 'networkpolicies', { statusSubresource: false }),
  PodDisruptionBudget: builtIn('policy/v1', 'poddisruptionbudgets'),
  RoleBinding: builtIn('rbac.authorization.k8s.io/v1', 'rolebindings', { statusSubresource: false }),
  VolumeSnapshot: builtIn('snapshot.storage.k8s.io/v1', 'volumesnapshots'),
}

export const kindNames = Object.keys(kindInfo) as KindName[]
