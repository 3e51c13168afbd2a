/**
 * The account behind a request: its Tenant object, its namespace, and what its plan refuses. A tenant without an object
 * reads as one with a standard plan and nothing in it; its first write makes the object.
 */
import { LRUCache } from 'lru-cache'
import { type Cluster, isClusterError, type Kinds } from '../cluster/index.ts'
import type { Informer } from '../cluster/informer/index.ts'
import { apiVersion, labels, managedByEspalier, tenantHash, tenantName, tenantNamespace } from '../crds/index.ts'
import { forbidden, unavailable } from './errors.ts'
import type { Principal } from './tokens/verify.ts'

type Tenant = Kinds['Tenant']

/** The account of one request. */
export type Account = {
  tenantId: string
  subject: string
  /** Where everything of this tenant lives. */
  namespace: string
  /** Absent until the tenant's first write. */
  tenant: Tenant | undefined
}

/** How long a first write waits for the operator to make the tenant's namespace. */
const readyWithinMs = 10_000
/** Names come from a hash: those of the tenants seen last are kept. */
const namesKept = 10_000

type Names = { name: string; namespace: string }

export type Tenants = {
  /** @throws ApiError 403 membership_revoked */
  accountOf: (principal: Principal) => Account | Promise<Account>
  /** As far as the cache knows. */
  isRevoked: (principal: Principal) => boolean
  /** Makes the tenant if it is new, and waits until its namespace is there. @throws ApiError 503 */
  ensure: (account: Account, signal: AbortSignal) => Promise<Tenant>
}

/** `limits`: what a tenant that its first write makes may have; what is absent is the kind's own default. */
export function createTenants(
  cluster: Cluster,
  cache: Informer<'Tenant'>,
  limits: Partial<Tenant['spec']['limits']> = {},
): Tenants {
  const names = new LRUCache<string, Names>({ max: namesKept })
  const namesOf = (tenantId: string): Names => {
    const known = names.get(tenantId)
    if (known !== undefined) return known
    const made = { name: tenantName(tenantId), namespace: tenantNamespace(tenantId) }
    names.set(tenantId, made)
    return made
  }

  const revokes = (tenant: Tenant | undefined, { subject }: Principal): boolean =>
    tenant?.spec.revokedMembers.includes(subject) === true

  function admit(principal: Principal, namespace: string, tenant: Tenant | undefined): Account {
    const { tenantId, subject } = principal
    if (revokes(tenant, principal)) {
      throw forbidden('this membership of the account has been revoked', 'membership_revoked')
    }
    return { tenantId, subject, namespace, tenant }
  }

  async function create(tenantId: string): Promise<Tenant> {
    const { name } = namesOf(tenantId)
    const metadata = {
      name,
      labels: { [labels.tenant]: tenantHash(tenantId), [labels.managedBy]: managedByEspalier },
    }
    // What is left out has the defaults of the kind.
    const spec = { tenantId, limits } as Tenant['spec']
    try {
      return await cluster.create('Tenant', { apiVersion, kind: 'Tenant', metadata, spec })
    } catch (error) {
      const existing = isClusterError(error, 'AlreadyExists') ? await cluster.get('Tenant', { name }) : undefined
      if (existing === undefined) throw error
      return existing
    }
  }

  return {
    accountOf(principal) {
      const { name, namespace } = namesOf(principal.tenantId)
      const cached = cache.get({ name })
      if (cached !== undefined) return admit(principal, namespace, cached)
      return cluster.get('Tenant', { name }).then(tenant => admit(principal, namespace, tenant))
    },
    isRevoked: principal => revokes(cache.get({ name: namesOf(principal.tenantId).name }), principal),
    async ensure({ tenantId, tenant }, signal) {
      if (tenant?.status?.phase === 'ready') return tenant
      const present = tenant ?? (await create(tenantId))
      cache.writeThrough(present)
      const key = { name: present.metadata.name }
      const isReady = (object: Tenant | undefined) => object?.status?.phase === 'ready'
      const { satisfied, object } = await cache.waitFor(key, isReady, { timeoutMs: readyWithinMs, signal })
      if (!satisfied || object === undefined)
        throw unavailable('the account is still being set up: try again', undefined, 5)
      return object
    },
  }
}

/** The plan on which no on-demand backups are taken. */
const developerPlan = 'developer'

/**
 * A plan that has run out refuses what creates or changes; reading and deleting go on, so that an account can always
 * be looked at and cleared. @throws ApiError 403 plan_expired
 */
export function requireCurrentPlan({ tenant }: Account, now: number): void {
  const expiresAt = tenant?.spec.plan.expiresAt
  if (expiresAt !== undefined && Date.parse(expiresAt) <= now) {
    throw forbidden("the account's plan has expired: you can read and delete, and nothing else", 'plan_expired')
  }
}

/** @throws ApiError 403 developer_plan_backup */
export function requireBackupsInPlan({ tenant }: Account): void {
  if (tenant?.spec.plan.name === developerPlan) {
    throw forbidden('the developer plan has no on-demand backups', 'developer_plan_backup')
  }
}
