/**
 * Every change that a client can see changes `updated_at`, which never decreases. Changes concern the object, its
 * status, its branches, its account and its region. They come from the API, the operator or kubectl, and are visible
 * once the operator has observed them.
 */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Kinds } from '../../cluster/index.ts'
import {
  annotations,
  apiVersion,
  desiredHash,
  desiredStateOf,
  isLiveBranch,
  labels,
  type ManagedDatabaseSpec,
  type ManagedDatabaseStatus,
} from '../../crds/index.ts'
import { withSpecDigest } from '../../operator/managed-database/spec-digest.ts'
import { withSince } from '../../operator/objects/since.ts'
import { withUpdatedAt } from '../../operator/objects/updated-at.ts'
import { createIds } from '../../values/id.ts'
import { preciseTime, timestamp } from '../../values/time.ts'
import { renderDatabase } from './render.ts'

type State = {
  now: number
  database: Kinds['ManagedDatabase']
  branches: Kinds['Branch'][]
  region: Kinds['Region']
  tenant: Kinds['Tenant']
}
type Change = (state: State) => Partial<State>

const began = Date.parse('2026-01-31T12:00:00.250Z')
const idAt = (ms: number): string => createIds(() => ms)()
const metadataAt = (now: number, name: string) => ({
  name,
  namespace: 'espalier-t-x',
  creationTimestamp: timestamp(now),
  labels: { [labels.id]: idAt(now) },
})
const first: State = {
  now: began,
  database: {
    apiVersion,
    kind: 'ManagedDatabase',
    metadata: metadataAt(began, 'shop'),
    spec: {
      region: 'local',
      size: { name: 'small', version: 1 },
      pgVersion: '18',
      instances: 1,
      ipAllowlist: { rules: [] },
      options: [],
      services: [],
      suspended: false,
      deletionProtection: false,
      deletion: { keepBackups: false },
      backup: { durable: false },
    },
  },
  branches: [],
  region: {
    apiVersion,
    kind: 'Region',
    metadata: { name: 'local' },
    spec: { domain: 'one.test', gateway: { ports: { first: 1, last: 2 } } },
  },
  tenant: {
    apiVersion,
    kind: 'Tenant',
    metadata: { name: 't' },
    spec: { tenantId: 'acme', plan: { name: 'standard' }, limits: { databases: 9 }, revokedMembers: [] },
  },
}

/** The operator's writes in one pass, with or without new observations. */
function passed(state: State, found: Partial<ManagedDatabaseStatus> = {}): State {
  const { database, branches, region, tenant, now } = state
  const branchCount = branches.filter(isLiveBranch).length
  const ending = database.metadata.deletionTimestamp === undefined ? {} : { phase: 'deleting' as const }
  const planned = {
    ...database.status,
    branchCount,
    appliedHash: desiredHash(desiredStateOf(database)),
    ...found,
    ...ending,
  }
  const status = withSpecDigest(database, withUpdatedAt(database.status, planned, now), now)
  const domain = withSince(region.status?.domain, { name: region.spec.domain }, now)
  const { branchesPerDatabase: limit } = tenant.spec.limits
  const ofBranches = withSince(tenant.status?.branches, limit === undefined ? {} : { limit }, now)
  return {
    ...state,
    database: { ...database, status },
    region: { ...region, status: { domain } },
    tenant: { ...tenant, status: { branches: ofBranches } },
  }
}

const spec =
  (change: Partial<ManagedDatabaseSpec>): Change =>
  ({ database }) => ({ database: { ...database, spec: { ...database.spec, ...change } } })
const annotated =
  (name: string, valueAt: (now: number) => string): Change =>
  ({ database, now }) => {
    const { metadata } = database
    const merged = { ...metadata.annotations, [name]: valueAt(now) }
    return { database: { ...database, metadata: { ...metadata, annotations: merged } } }
  }

const branchAt = (now: number): Kinds['Branch'] => ({
  apiVersion,
  kind: 'Branch',
  metadata: metadataAt(now, `shop-${now}`),
  spec: {
    ...{ databaseName: 'shop', databaseId: 'x', depth: 1, region: 'local', pgVersion: '18' },
    ...{ size: { name: 'small', version: 1 }, ipAllowlist: { rules: [] }, services: [], options: [] },
  },
})

const word = fc.stringMatching(/^[a-z]{1,3}$/)
const small = fc.integer({ min: 1, max: 4 })
const rule = fc.record({ cidr: fc.constantFrom('10.0.0.0/8', '11.0.0.0/8'), label: word })

/** All kinds of changes by name. */
const changes: Record<string, fc.Arbitrary<Change>> = {
  name: fc.option(word).map(
    (displayName): Change =>
      ({ database }) => {
        const { displayName: _, ...rest } = database.spec
        return { database: { ...database, spec: { ...rest, ...(displayName === null ? {} : { displayName }) } } }
      },
  ),
  options: fc.array(word, { maxLength: 2 }).map(options => spec({ options })),
  protection: fc.boolean().map(deletionProtection => spec({ deletionProtection })),
  suspension: fc.boolean().map(suspended => spec({ suspended })),
  size: small.map(version => spec({ size: { name: 'small', version } })),
  allowlist: fc.array(rule, { maxLength: 2 }).map(rules => spec({ ipAllowlist: { rules } })),
  growth: small.map(size => spec({ storage: { autogrow: { atPercent: 80, stepPercent: 20, maxSize: `${size}Gi` } } })),
  restart: word.map(text => annotated(annotations.restart, () => text)),
  // The API records the time in the same write.
  'name by the API': word.map(
    (displayName): Change =>
      state => {
        const { database } = annotated(annotations.updatedAt, preciseTime)(state)
        return { ...spec({ displayName })({ ...state, ...(database && { database }) }) }
      },
  ),
  deletion: fc.constant<Change>(({ database, now }) => {
    const { metadata } = database
    return { database: { ...database, metadata: { ...metadata, deletionTimestamp: timestamp(now) } } }
  }),
  'new branch': fc.constant<Change>(({ branches, now }) => ({ branches: [...branches, branchAt(now)] })),
  // Both times are set once, because a cluster does not allow changes.
  'branch deletion requested': fc.constant<Change>(({ branches: [one, ...others], now }) =>
    one === undefined
      ? {}
      : { branches: [...others, { ...one, spec: { deletionRequestedAt: preciseTime(now), ...one.spec } }] },
  ),
  'branch deleted': fc.constant<Change>(({ branches: [one, ...others], now }) =>
    one === undefined
      ? {}
      : { branches: [...others, { ...one, metadata: { deletionTimestamp: timestamp(now), ...one.metadata } }] },
  ),
  'branch gone': fc.constant<Change>(({ branches: [, ...others] }) => ({ branches: others })),
  domain: word.map(
    (text): Change =>
      ({ region }) => ({ region: { ...region, spec: { ...region.spec, domain: `${text}.test` } } }),
  ),
  limit: fc.option(small).map(
    (limit): Change =>
      ({ tenant }) => {
        const limits = { databases: 9, ...(limit === null ? {} : { branchesPerDatabase: limit }) }
        return { tenant: { ...tenant, spec: { ...tenant.spec, limits } } }
      },
  ),
}

/** The operator's observations. */
const findings: fc.Arbitrary<Partial<ManagedDatabaseStatus>> = fc.oneof(
  fc.constantFrom('available' as const, 'degraded' as const, 'failed' as const).map(phase => ({ phase })),
  small.map(port => ({ endpoint: { host: 'h', port } })),
  fc.option(word, { nil: undefined }).map(domain => ({ domain })),
  small.map(storageUsedBytes => ({ storageUsedBytes })),
  small.map(version => ({ size: { name: 'small', version } })),
  small.map(gigabytes => ({ storage: { capacity: `${gigabytes}Gi`, since: '2026-01-01T00:00:00Z' } })),
)

const step = fc.record({
  what: fc
    .constantFrom(...Object.keys(changes), 'nothing')
    .chain(name =>
      (changes[name] ?? fc.constant<Change>(() => ({}))).map(change => ({ change, toString: () => name })),
    ),
  found: fc.option(findings, { nil: undefined }),
  afterMs: fc.integer({ min: 1, max: 1500 }),
})

test('every change increases updated_at', () => {
  const shown = ({ database, ...related }: State) => renderDatabase(database, related)
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 12 }), steps => {
      let state = passed(first)
      for (const { what, found, afterMs } of steps) {
        const { updated_at: before, ...seen } = shown(state)
        const changed = { ...state, now: state.now + afterMs }
        state = { ...changed, ...what.change(changed) }
        state = passed({ ...state, now: state.now + 5 }, found)
        const { updated_at: after, ...seenThen } = shown(state)
        if (JSON.stringify(seenThen) === JSON.stringify(seen)) expect(after >= before).toBe(true)
        else expect(after > before, `${what}: ${after} is later than ${before}`).toBe(true)
      }
    }),
    { numRuns: 2000 },
  )
})

test('returns a host name if clients can resolve it, and omits it if the region says that they cannot', () => {
  const { region, ...state } = first
  const shown = (domainResolves?: boolean) => {
    const spec = { ...region.spec, ...(domainResolves === undefined ? {} : { domainResolves }) }
    return renderDatabase(state.database, { ...state, region: { ...region, spec } }).domain
  }
  expect(shown()).toMatch(/\.one\.test$/)
  expect(shown(true)).toMatch(/\.one\.test$/)
  expect(shown(false)).toBeUndefined()
})
