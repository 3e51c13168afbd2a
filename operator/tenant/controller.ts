/**
 * The controller of Tenants: each has a namespace, in which everything of the tenant's lives, and which goes with the
 * tenant once no database is left in it. A quota there holds whoever may write to it to the tenant's limits.
 */
import type { Draft, Namespace } from '../../cluster/index.ts'
import { keyOf, parseKey } from '../../cluster/informer/index.ts'
import { startController } from '../../controller/index.ts'
import {
  canonicalJson,
  labels,
  managedByEspalier,
  type Tenant,
  teardownFinalizer,
  tenantHash,
  tenantName,
  tenantNamespace,
} from '../../crds/index.ts'
import { timestamp } from '../../values/time.ts'
import type { ControllerOptions } from '../controller-options.ts'
import { type Finding, no, yes } from '../objects/conditions.ts'
import { withSince } from '../objects/since.ts'
import { isUpToDate, stamped } from '../objects/up-to-date.ts'
import { leftIn } from './left.ts'
import { copiesNote, keepCopies } from './pull-secrets.ts'
import { isOurs, quotaDraft } from './quota.ts'

type TenantControllerOptions = ControllerOptions & {
  workers: number
  /** Names of the Secrets by which databases' images are pulled. */
  pullSecrets: readonly string[]
}

/** A tenant's deletion goes on when the last database or the namespace goes; should that be missed, then so much later. */
const deletionRetryMs = 30_000

/** How soon it is checked whether the operator is bound in a new namespace. */
const bindingMs = 50

/** The namespace of a tenant; only pods that meet the "restricted" standard may run there. */
export function namespaceDraft(
  { spec: { tenantId } }: Pick<Tenant, 'spec'>,
  pullSecrets: readonly string[] = [],
): Draft<'Namespace'> {
  return stamped({
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: {
      name: tenantNamespace(tenantId),
      ...copiesNote(pullSecrets),
      labels: {
        [labels.managedBy]: managedByEspalier,
        [labels.tenant]: tenantHash(tenantId),
        'pod-security.kubernetes.io/enforce': 'restricted',
        'pod-security.kubernetes.io/audit': 'restricted',
        'pod-security.kubernetes.io/warn': 'restricted',
      },
    },
  })
}

/** `LimitsEnforced` stands there only where it is not so. */
type Findings = { Ready: Finding; LimitsEnforced?: Finding }

/** As users see it. */
const limitOf = ({ spec: { limits } }: Tenant): { limit?: number } =>
  limits.branchesPerDatabase === undefined ? {} : { limit: limits.branchesPerDatabase }

/** The status of a tenant, given what was found. */
function tenantStatus(tenant: Tenant, findings: Findings, now: number): NonNullable<Tenant['status']> {
  const { metadata, spec, status } = tenant
  const conditions = Object.entries(findings).map(([type, finding]) => {
    const before = status?.conditions?.find(condition => condition.type === type)
    const isSame = before?.status === finding.status
    return {
      type,
      ...finding,
      observedGeneration: metadata.generation ?? 0,
      lastTransitionTime: isSame ? before.lastTransitionTime : timestamp(now),
    }
  })
  return {
    phase: findings.Ready.status === 'True' ? 'ready' : 'pending',
    namespace: tenantNamespace(spec.tenantId),
    branches: withSince(status?.branches, limitOf(tenant), now),
    observedGeneration: metadata.generation ?? 0,
    conditions,
  }
}

export function startTenantController(options: TenantControllerOptions): { stop(): Promise<void> } {
  const { caches, pullSecrets, logger, metrics, now, signal } = options
  const cluster = caches.writeThrough(options.cluster)

  const copies = { cluster, sources: caches.systemSecrets, names: pullSecrets, logger }

  const report = async (tenant: Tenant, Ready: Finding, others: Omit<Findings, 'Ready'> = {}) => {
    const status = tenantStatus(tenant, { Ready, ...others }, now())
    if (canonicalJson(status) === canonicalJson(tenant.status ?? {})) return
    await cluster.replaceStatus('Tenant', { ...tenant, status })
  }

  const withFinalizer = (tenant: Tenant, isHeld: boolean): Tenant => {
    const others = tenant.metadata.finalizers?.filter(finalizer => finalizer !== teardownFinalizer) ?? []
    return { ...tenant, metadata: { ...tenant.metadata, finalizers: isHeld ? [...others, teardownFinalizer] : others } }
  }

  const reconcile = async (key: string) => {
    const tenant = caches.tenants.get(parseKey(key))
    if (tenant === undefined) return undefined
    const isHeld = tenant.metadata.finalizers?.includes(teardownFinalizer) === true
    if (tenant.metadata.deletionTimestamp !== undefined) return isHeld ? release(tenant) : undefined
    const expected = tenantName(tenant.spec.tenantId)
    if (tenant.metadata.name !== expected) {
      await report(tenant, no('WrongName', `metadata.name must be ${expected} for this tenantId`))
      return undefined
    }
    if (!isHeld) {
      await cluster.replace('Tenant', withFinalizer(tenant, true))
      return undefined
    }
    const draft = namespaceDraft(tenant, pullSecrets)
    const namespace = caches.namespaces.get({ name: draft.metadata.name })
    if (namespace?.metadata.deletionTimestamp !== undefined) {
      await report(tenant, no('NamespaceTerminating', 'its namespace is being deleted by somebody'))
      return undefined
    }
    if (!caches.isServed(draft.metadata.name)) {
      if (namespace === undefined) await cluster.apply('Namespace', draft)
      return { requeueAfterMs: bindingMs }
    }
    // The namespace says which copies it may hold from before the first to after the last.
    if (pullSecrets.length === 0) await keepCopies(copies, draft.metadata.name, namespace)
    if (!isUpToDate(namespace, draft)) await cluster.apply('Namespace', draft)
    if (pullSecrets.length > 0) await keepCopies(copies, draft.metadata.name, namespace)
    // Before it is ready, so that nothing is made there without.
    const limits = await limit(tenant)
    await report(tenant, yes('NamespaceReady', 'its namespace is there'), limits && { LimitsEnforced: limits })
    return undefined
  }

  /** Keeps the tenant's quota as its limits are; gives what is in the way of it. */
  const limit = async (tenant: Tenant): Promise<Finding | undefined> => {
    const draft = quotaDraft(tenant)
    const { name, namespace } = draft.metadata
    const known = caches.quotas.get({ namespace, name })
    if (isUpToDate(known, draft)) return undefined
    // The cache has only ours: another's of this name is not in it.
    const present = known ?? (await cluster.get('ResourceQuota', { namespace, name }))
    if (present !== undefined && !isOurs(present))
      return no(
        'QuotaOfAnother',
        `there is a ResourceQuota ${name} of somebody else: rename it, so that limits are kept`,
      )
    await cluster.apply('ResourceQuota', draft)
    return undefined
  }

  /** Deletes the namespace once nothing in it holds data, and lets the tenant go once the namespace is gone. */
  const release = async (tenant: Tenant) => {
    const name = tenantNamespace(tenant.spec.tenantId)
    const namespace: Namespace | undefined = await cluster.get('Namespace', { name })
    const isOurs = namespace?.metadata.labels?.[labels.tenant] === tenantHash(tenant.spec.tenantId)
    if (namespace === undefined || !isOurs || tenant.metadata.name !== tenantName(tenant.spec.tenantId)) {
      await cluster.replace('Tenant', withFinalizer(tenant, false))
      return undefined
    }
    const left = namespace.metadata.deletionTimestamp === undefined ? await leftIn(cluster, name) : undefined
    if (left !== undefined) {
      await report(tenant, left)
      return { requeueAfterMs: deletionRetryMs }
    }
    if (namespace.metadata.deletionTimestamp === undefined)
      await cluster.delete('Namespace', { name }, { uid: namespace.metadata.uid })
    return { requeueAfterMs: deletionRetryMs }
  }

  const controller = startController({
    name: 'tenant',
    workers: options.workers,
    reconcile,
    keys: () => caches.tenants.list().map(keyOf),
    signal,
    logger,
    metrics,
  })
  const ofNamespace = (namespace = '') => {
    for (const tenant of caches.tenants.byIndex('namespace', namespace)) controller.enqueue(keyOf(tenant))
  }
  const unfollow = [
    caches.tenants.onChange(({ object }) => controller.enqueue(keyOf(object))),
    caches.namespaces.onChange(({ object }) => ofNamespace(object.metadata.name)),
    caches.systemSecrets.onChange(({ object }) => {
      if (!pullSecrets.includes(object.metadata.name)) return
      for (const tenant of caches.tenants.list()) controller.enqueue(keyOf(tenant))
    }),
    caches.quotas.onChange(({ object }) => ofNamespace(object.metadata.namespace)),
    caches.databases.onChange(({ type, object }) => {
      if (type === 'deleted') ofNamespace(object.metadata.namespace)
    }),
    caches.backups.onChange(({ type, object }) => {
      if (type === 'deleted') ofNamespace(object.metadata.namespace)
    }),
    caches.claims.onChange(({ type, object }) => {
      if (type === 'deleted') ofNamespace(object.metadata.namespace)
    }),
  ]
  return {
    stop: async () => {
      for (const end of unfollow) end()
      await controller.stop()
    },
  }
}
