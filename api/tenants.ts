/**
 * The account of a request: its Tenant object, its namespace, and the limits of its plan. A tenant without a Tenant
 * object counts as a tenant with a standard plan and no objects. Its first write creates the Tenant object.
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
  /** The namespace of all objects of this tenant. */
  namespace: string
  /** Absent until the tenant's first write. */
  tenant: Tenant | undefined
}

/** How long a first write waits until the operator has created the tenant's namespace. */
const readyWithinMs = 10_000
/** How many names are cached. A name is a hash, so computing it takes time. */
const maximumNames = 10_000

type Names = { name: string; namespace: string }

export type Tenants = {
  /** @throws ApiError 403 membership_revoked */
  accountOf: (principal: Principal) => Account | Promise<Account>
  /** Reads the cache. */
  isRevoked: (principal: Principal) => boolean
  /** Creates the tenant if it is new, and waits until its namespace exists. @throws ApiError 503 */
  ensure: (account: Account, signal: AbortSignal) => Promise<Tenant>
}

/** `limits`: the limits of a tenant that its first write creates. An absent limit has the kind's default. */
export function createTenants(
  cluster: Cluster,
  cache: Informer<'Tenant'>,
  limits: Partial<Tenant['spec']['limits']> = {},
): Tenants {
  const names = new LRUCache<string, Names>({ max: maximumNames })
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
    // Omitted fields have the kind's defaults.
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
        throw unavailable('the account is still being set up: retry', undefined, 5)
      return object
    },
  }
}

/** The plan without on-demand backups. */
const developerPlan = 'developer'

/**
 * An expired plan refuses creates and changes. Reads and deletes continue, so that users can always inspect and empty
 * an account. @throws ApiError 403 plan_expired
 */
export function requireCurrentPlan({ tenant }: Account, now: number): void {
  const expiresAt = tenant?.spec.plan.expiresAt
  if (expiresAt !== undefined && Date.parse(expiresAt) <= now) {
    throw forbidden("the account's plan has expired: only reads and deletes are possible", 'plan_expired')
  }
}

/** @throws ApiError 403 developer_plan_backup */
export function requireBackupsInPlan({ tenant }: Account): void {
  if (tenant?.spec.plan.name === developerPlan) {
    throw forbidden('the developer plan does not include on-demand backups', 'developer_plan_backup')
  }
}
