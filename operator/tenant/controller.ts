/**
 * The controller of Tenants. It creates a namespace for each tenant, for all of the tenant's objects. It deletes the
 * namespace after the tenant, when no database remains in it. A quota in the namespace applies the tenant's limits to
 * every client that can write there.
 */
import type { Cluster, Namespace } from '../../cluster/index.ts'
import { keyOf, parseKey } from '../../cluster/informer/index.ts'
import { type Controller, startController } from '../../controller/index.ts'
import {
  canonicalJson,
  labels,
  type Tenant,
  teardownFinalizer,
  tenantHash,
  tenantName,
  tenantNamespace,
} from '../../crds/index.ts'
import type { Caches } from '../caches.ts'
import type { ControllerOptions } from '../controller-options.ts'
import { type Finding, no, yes } from '../objects/conditions.ts'
import { isUpToDate } from '../objects/up-to-date.ts'
import { namespaceDraft } from './namespace.ts'
import { keepCopies } from './pull-secrets.ts'
import { isManaged, quotaDraft } from './quota.ts'
import { remainingIn } from './remaining.ts'
import { type Findings, tenantStatus } from './status.ts'
import { deleteStrayKeys } from './stray-keys.ts'

type TenantControllerOptions = ControllerOptions & {
  workers: number
  /** The names of the pull Secrets for the databases' images. */
  pullSecrets: readonly string[]
}

/**
 * A tenant's deletion continues after an event: its last database or its namespace was deleted. This interval is for a
 * missed event.
 */
const deletionRetryMs = 30_000

/** How soon to check whether the operator has its RoleBinding in a new namespace. */
const bindingMs = 50

export function startTenantController(options: TenantControllerOptions): { stop(): Promise<void> } {
  const tenants = new TenantController(options)
  const unsubscribe = follow(options, key => tenants.enqueue(key))
  return {
    stop: async () => {
      for (const end of unsubscribe) end()
      await tenants.stop()
    },
  }
}

class TenantController {
  readonly #options: TenantControllerOptions
  readonly #caches: Caches
  readonly #cluster: Cluster
  readonly #controller: Controller

  constructor(options: TenantControllerOptions) {
    const { caches, workers, logger, metrics, signal } = options
    this.#options = options
    this.#caches = caches
    this.#cluster = caches.writeThrough(options.cluster)
    this.#controller = startController({
      name: 'tenant',
      workers,
      reconcile: key => this.#reconcile(key),
      keys: () => caches.tenants.list().map(keyOf),
      signal,
      logger,
      metrics,
    })
  }

  enqueue(key: string): void {
    this.#controller.enqueue(key)
  }

  stop(): Promise<void> {
    return this.#controller.stop()
  }

  async #reconcile(key: string) {
    const tenant = this.#caches.tenants.get(parseKey(key))
    if (tenant === undefined) return undefined
    const hasFinalizer = tenant.metadata.finalizers?.includes(teardownFinalizer) === true
    if (tenant.metadata.deletionTimestamp !== undefined) return hasFinalizer ? this.#release(tenant) : undefined
    const expected = tenantName(tenant.spec.tenantId)
    if (tenant.metadata.name !== expected) {
      await this.#report(tenant, { Ready: no('WrongName', `metadata.name must be ${expected} for this tenantId`) })
      return undefined
    }
    if (!hasFinalizer) {
      await this.#cluster.replace('Tenant', withFinalizer(tenant, true))
      return undefined
    }
    return this.#keep(tenant)
  }

  /** Creates or corrects the namespace and its objects. */
  async #keep(tenant: Tenant) {
    const draft = namespaceDraft(tenant, this.#options.pullSecrets)
    const namespace = this.#caches.namespaces.get({ name: draft.metadata.name })
    if (namespace?.metadata.deletionTimestamp !== undefined) {
      await this.#report(tenant, {
        Ready: no('NamespaceTerminating', "another client is deleting the tenant's namespace"),
      })
      return undefined
    }
    if (!this.#caches.isServed(draft.metadata.name)) {
      if (namespace === undefined) await this.#cluster.apply('Namespace', draft)
      return { requeueAfterMs: bindingMs }
    }
    await this.#keepNamespace(draft, namespace)
    // The operator creates the quota before it sets Ready, so that clients create nothing without a quota.
    const limits = await this.#keepQuota(tenant)
    const Ready = yes('NamespaceReady', 'its namespace exists')
    await this.#report(tenant, { Ready, ...(limits && { LimitsEnforced: limits }) })
    const { clock, now } = this.#options
    if (clock.distrust() === undefined) await deleteStrayKeys(this.#caches, this.#cluster, draft.metadata.name, now())
    return undefined
  }

  /**
   * The namespace's annotation names the copies of Secrets in it. It is written before the first copy, and removed
   * after the last one.
   */
  async #keepNamespace(draft: ReturnType<typeof namespaceDraft>, namespace: Namespace | undefined) {
    const { pullSecrets, logger } = this.#options
    const copies = { cluster: this.#cluster, sources: this.#caches.systemSecrets, names: pullSecrets, logger }
    if (pullSecrets.length === 0) await keepCopies(copies, draft.metadata.name, namespace)
    if (!isUpToDate(namespace, draft)) await this.#cluster.apply('Namespace', draft)
    if (pullSecrets.length > 0) await keepCopies(copies, draft.metadata.name, namespace)
  }

  /** Applies the tenant's quota. @returns why that is not possible */
  async #keepQuota(tenant: Tenant): Promise<Finding | undefined> {
    const draft = quotaDraft(tenant)
    const { name, namespace } = draft.metadata
    const known = this.#caches.quotas.get({ namespace, name })
    if (isUpToDate(known, draft)) return undefined
    // The cache has only Espalier's quotas. Another owner's quota with this name is not in it.
    const present = known ?? (await this.#cluster.get('ResourceQuota', { namespace, name }))
    if (present !== undefined && !isManaged(present))
      return no(
        'QuotaOfAnother',
        `there is another owner's ResourceQuota ${name}: rename it, so that limits are enforced`,
      )
    await this.#cluster.apply('ResourceQuota', draft)
    return undefined
  }

  /**
   * Deletes the namespace when nothing in it contains data. Removes the tenant's finalizer after the namespace is
   * deleted.
   */
  async #release(tenant: Tenant) {
    const name = tenantNamespace(tenant.spec.tenantId)
    const namespace: Namespace | undefined = await this.#cluster.get('Namespace', { name })
    const isTenants = namespace?.metadata.labels?.[labels.tenant] === tenantHash(tenant.spec.tenantId)
    if (namespace === undefined || !isTenants || tenant.metadata.name !== tenantName(tenant.spec.tenantId)) {
      await this.#cluster.replace('Tenant', withFinalizer(tenant, false))
      return undefined
    }
    const isTerminating = namespace.metadata.deletionTimestamp !== undefined
    const remaining = isTerminating ? undefined : await remainingIn(this.#cluster, name)
    if (remaining !== undefined) await this.#report(tenant, { Ready: remaining })
    else if (!isTerminating) await this.#cluster.delete('Namespace', { name }, { uid: namespace.metadata.uid })
    return { requeueAfterMs: deletionRetryMs }
  }

  async #report(tenant: Tenant, findings: Findings) {
    const status = tenantStatus(tenant, findings, this.#options.now())
    if (canonicalJson(status) === canonicalJson(tenant.status ?? {})) return
    await this.#cluster.replaceStatus('Tenant', { ...tenant, status })
  }
}

const withFinalizer = (tenant: Tenant, hasFinalizer: boolean): Tenant => {
  const others = tenant.metadata.finalizers?.filter(finalizer => finalizer !== teardownFinalizer) ?? []
  return {
    ...tenant,
    metadata: { ...tenant.metadata, finalizers: hasFinalizer ? [...others, teardownFinalizer] : others },
  }
}

/** Enqueues the tenants that a change concerns. @returns the function that unsubscribes */
function follow({ caches, pullSecrets }: TenantControllerOptions, enqueue: (key: string) => void): (() => void)[] {
  const ofNamespace = (namespace = '') => {
    for (const tenant of caches.tenants.byIndex('namespace', namespace)) enqueue(keyOf(tenant))
  }
  /** Objects that block the deletion of a namespace. */
  const onDeleted = ({ type, object }: { type: string; object: Pick<Tenant, 'metadata'> }) => {
    if (type === 'deleted') ofNamespace(object.metadata.namespace)
  }
  return [
    caches.tenants.onChange(({ object }) => enqueue(keyOf(object))),
    caches.namespaces.onChange(({ object }) => ofNamespace(object.metadata.name)),
    caches.systemSecrets.onChange(({ object }) => {
      if (!pullSecrets.includes(object.metadata.name)) return
      for (const tenant of caches.tenants.list()) enqueue(keyOf(tenant))
    }),
    caches.quotas.onChange(({ object }) => ofNamespace(object.metadata.namespace)),
    caches.databases.onChange(onDeleted),
    caches.backups.onChange(onDeleted),
    caches.claims.onChange(onDeleted),
  ]
}
