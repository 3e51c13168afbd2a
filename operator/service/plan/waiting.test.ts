/** Services while Postgres starts: when their workloads are created, what is reported, and when they are deleted. */
import { describe, expect, test } from 'vitest'
import type { ConfigMap, Deployment, NetworkPolicy, Secret, Service } from '../../../cluster/index.ts'
import type { Condition } from '../../../crds/index.ts'
import { serviceConfig } from '../../../crds/services.ts'
import { testConfiguration } from '../../testing/installation.ts'
import { reconciledDatabase } from '../../testing/reconciled-database.ts'
import { renderService } from '../configuration/index.ts'
import type { ObservedServices } from '../observed.ts'
import { noServices } from '../observed.ts'
import { planServices } from './index.ts'
import { type PostgresState, postgresState, waitingMs } from './postgres-state.ts'

const { now, owner, observedOf } = reconciledDatabase()
const reconciled = observedOf()
const starting: PostgresState = { is: 'starting', until: now + waitingMs }
const away: PostgresState = { is: 'away' }
const answers: PostgresState = { is: 'answers' }

const config = serviceConfig.parse({
  ...{ serviceType: 'rest', serviceId: '00000002' },
  rest: { dbSchemas: 'public', dbAnonRole: 'web_anon' },
})
const resources = { requests: { cpu: '10m', memory: '96Mi' }, limits: {} }
const rendering = renderService({
  ...{ config, keys: {}, minted: { password: 'p' }, state: undefined, publicUrl: undefined },
  database: {
    ...{ host: 'db', port: 5432, name: 'app', authority: '' },
    passwords: { admin: [], app: [], app_read_only: [] },
  },
  settings: { resources: { mcp: resources, rest: resources, rag: resources }, baseUrls: {}, trustedProxies: [] },
})
if (rendering.kind === 'refused') throw new Error(rendering.message)
const pod = { ...rendering.service, contentDigest: 'content' }

const requested: ObservedServices = {
  ...noServices({ image: 'espalier', settings: testConfiguration.services, nodes: 'unknown' }),
  requested: [{ config, rendering: { state: 'rendered', pod }, unminted: [], tokenDigest: undefined }],
  address: { host: 'one.db.test', base: 'https://one.db.test' },
  login: { secret: 'password', passwordVersion: 'm', anonymousRoles: [] },
}

type Given = { conditions?: Condition[]; services?: Partial<ObservedServices>; suspended?: boolean }
const planOf = (
  postgres: PostgresState,
  { conditions = [], services = {}, suspended = false }: Given = {},
  more: { at?: number; role?: 'ours' | 'foreign' } = {},
) => {
  const { instance } = reconciled
  const observed = {
    ...reconciled,
    instance: { ...instance, spec: { ...instance.spec, suspended }, status: { ...instance.status, conditions } },
    services: { ...requested, ...services },
  }
  const authenticator =
    more.role === undefined ? undefined : { passwordVersion: 'm', role: more.role, inOrder: true, anonymousRoles: {} }
  const last = { authenticator, mcpState: undefined, references: undefined, now: more.at ?? now }
  return planServices(observed as never, owner, { postgres, ...last })
}
const does = (plan: ReturnType<typeof planOf>) =>
  plan.actions.map(action => ('kind' in action ? `${action.do} ${action.kind}` : action.do))

/** The objects of the service after its workload was created, with this many ready pods. */
function existing(ready: number, { ageMs = 1_000, isServed = false } = {}): Given['services'] {
  const first = planOf(starting).actions.find(({ do: what }) => what === 'create-service-configuration')
  if (first?.do !== 'create-service-configuration') throw new Error('the plan creates no configuration')
  const { type, digest } = first
  const object = (name: string, more: object = {}) => ({ metadata: { name, namespace: 'n', uid: name, ...more } })
  const creationTimestamp = new Date(now - ageMs).toISOString()
  const deployment = {
    ...{ kind: 'Deployment', apiVersion: 'apps/v1', ...object('workload', { creationTimestamp }) },
    ...{ spec: { replicas: 1 }, status: { observedGeneration: 1, readyReplicas: ready } },
  } as unknown as Deployment
  const service = isServed ? { service: type } : { service: type, unavailable: 'starting' }
  return {
    objects: {
      ...requested.objects,
      workloads: [{ type, digest, deployment }],
      configurations: [{ type, digest, secret: object('configuration') as Secret }],
      addresses: {
        rest: {
          ...object('address'),
          spec: { selector: { 'espalier.dev/configuration': digest } },
        } as unknown as Service,
      },
      networkPolicies: { rest: object('policy') as NetworkPolicy },
      routes: [object('route') as ConfigMap],
    },
    route: { route: { services: [service] } as never, acknowledged: true, waitingFor: [] },
  }
}
const deletes = (plan: ReturnType<typeof planOf>) => does(plan).includes('delete Deployment')

describe('the state of Postgres for its services', () => {
  const facts = { answers: false, isStillReady: false, isHeld: false, pod: { createdAt: now, terminating: false } }
  test.each<[string, Partial<typeof facts> | { pod: undefined }, number, PostgresState]>([
    ['its pod is new', {}, 0, starting],
    ['its pod is less new', {}, waitingMs - 1, starting],
    ['its pod has not answered for a long time', {}, waitingMs, away],
    ['its pod is being stopped', { pod: { createdAt: now, terminating: true } }, 0, away],
    ['it has no pod, and the quota may refuse one', { pod: undefined }, 0, away],
    ['it answers', { answers: true }, waitingMs, answers],
    ['it served, and has not been probed since', { isStillReady: true }, 0, { is: 'unprobed' }],
    ['an import or lost data must be handled first', { isHeld: true, answers: true }, 0, away],
  ])('%s', (_, given, afterMs, expected) => {
    expect(postgresState({ ...facts, ...given }, now + afterMs)).toEqual(expected)
  })
})

test('a workload is created beside a Postgres that starts, before its role exists', () => {
  // The Secret does not depend on a pod.
  for (const postgres of [starting, away, answers])
    expect(does(planOf(postgres))).toContain('create-service-configuration')
  expect(does(planOf(starting, { suspended: true }))).not.toContain('create-service-configuration')
  const configured = existing(0)
  if (configured?.objects === undefined) throw new Error('the plan has no objects')
  const without = { ...configured, objects: { ...configured.objects, workloads: [] } }
  const creates = (postgres: PostgresState, role?: 'ours') =>
    does(planOf(postgres, { services: without }, role && { role })).includes('apply Deployment')
  expect(creates(starting)).toBe(true)
  for (const postgres of [away, answers, { is: 'unprobed' } as const]) expect(creates(postgres)).toBe(false)
  expect(creates(answers, 'ours')).toBe(true)
  expect(creates(away, 'ours')).toBe(false)
})

test('a service that waits for Postgres is pending for any time, and has one minute after Postgres answers', () => {
  const long = { services: existing(0, { ageMs: 3_600_000, isServed: true }) }
  for (const postgres of [starting, away]) {
    const { status, finding, hasFailed, usesPasswords } = planOf(postgres, long)
    expect(status).toMatchObject([{ state: 'pending' }])
    expect(finding).toEqual({ status: 'Unknown', reason: 'RollingOut', message: 'rest: waiting for Postgres' })
    expect([hasFailed, usesPasswords]).toEqual([false, false])
  }
  const condition = (status: Condition['status'], ageMs: number): Condition[] => [
    {
      ...{ type: 'ServicesReady', status, reason: 'RollingOut', message: '' },
      lastTransitionTime: new Date(now - ageMs).toISOString(),
    },
  ]
  const first = planOf(answers, { ...long, conditions: condition('Unknown', 3_600_000) }, { role: 'ours' })
  expect(first.finding).toMatchObject({ status: 'False', message: 'rest: starting' })
  expect(first.requeueAt).toBe(now + 60_000)
  const after = (ageMs: number) => planOf(answers, { ...long, conditions: condition('False', ageMs) }, { role: 'ours' })
  expect(after(59_000).hasFailed).toBe(false)
  expect(after(60_000).hasFailed).toBe(true)
  // Postgres served before, but nothing is known about it now. So the deadline applies.
  expect(planOf({ is: 'unprobed' }, { ...long, conditions: condition('False', 60_000) }).hasFailed).toBe(true)
})

test('a workload that never reached Postgres is deleted, and a workload that served is kept', () => {
  const waited = (given: Parameters<typeof existing>[1], postgres: PostgresState = away, ready = 0) =>
    planOf(postgres, { services: existing(ready, given) })
  expect(deletes(waited({ ageMs: waitingMs }))).toBe(true)
  const early = waited({ ageMs: waitingMs - 1_000 })
  expect([deletes(early), early.requeueAt]).toEqual([false, now + 1_000])
  expect(deletes(waited({ ageMs: waitingMs, isServed: true }))).toBe(false)
  expect(deletes(waited({ ageMs: waitingMs }, away, 1))).toBe(false)
  expect(deletes(waited({ ageMs: waitingMs }, starting))).toBe(false)
  expect(deletes(waited({ ageMs: waitingMs }, { is: 'unprobed' }))).toBe(false)
})

test('a workload is deleted if a user created the role that it needs', () => {
  const services = existing(0)
  expect(deletes(planOf(answers, { services }, { role: 'foreign' }))).toBe(true)
  expect(deletes(planOf(answers, { services }, { role: 'ours' }))).toBe(false)
  expect(deletes(planOf(answers, { services: existing(0, { isServed: true }) }, { role: 'foreign' }))).toBe(false)
})
