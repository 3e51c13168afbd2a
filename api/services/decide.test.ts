/** Any sequence of PATCHes of services: omitted fields are unchanged. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type ServiceConfig, serviceConfigs } from '../../crds/index.ts'
import { ApiError } from '../errors.ts'
import { decideServices, type KnownService, type ServiceContext, servicesOfBranch } from './decide.ts'
import { type ServiceInput, serviceInputs } from './schema.ts'

let minted = 0
const context: ServiceContext = {
  isOffered: true,
  pgVersion: '18',
  pgvectorVersions: ['18'],
  members: ['db-1-0', 'node-a'],
  newServiceId: () => (minted++).toString(16).padStart(8, '0'),
  newSecretName: () => `keys-${minted++}`,
}

const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined, freq: 2 })
/** A key that is given, omitted, or removed. */
const key = (name: string) =>
  fc.oneof(
    fc.constant(undefined),
    fc.constant(null),
    fc.integer({ min: 0, max: 3 }).map(number => `${name}-secret-${number}`),
  )
const common = {
  ip_allowlist: maybe(fc.constantFrom({ rules: [] }, { rules: [{ cidr: '10.0.0.0/8' }] })),
  host_ids: maybe(fc.constantFrom(null, ['node-a'])),
}
const mcp = fc.record({
  service_type: fc.constant('mcp' as const),
  ...common,
  mcp_config: maybe(
    fc.record({
      allow_writes: maybe(fc.boolean()),
      embedding_provider: maybe(fc.constantFrom('openai' as const, 'voyage' as const)),
      embedding_model: fc.constant('m'),
      embedding_api_key: key('embedding'),
      init_tokens: key('token'),
      init_users: key('user').map(text => (text ? `${text}:password` : text)),
    }),
  ),
})
const rest = fc.record({
  service_type: fc.constant('rest' as const),
  ...common,
  rest_config: fc.record({
    db_schemas: fc.constant('public'),
    db_anon_role: fc.constant('anon'),
    jwt_secret: key('jwt').map(text => (text ? text.padEnd(40, 'x') : text)),
  }),
})
const llm = (name: string, ...providers: ('openai' | 'anthropic')[]) =>
  fc.record({
    provider: fc.constantFrom(...providers),
    model: fc.constant('m'),
    api_key: key(name),
  })
const rag = fc.record({
  service_type: fc.constant('rag' as const),
  ...common,
  rag_config: fc.record({
    embedding_llm: llm('embedding', 'openai'),
    completion_llm: llm('completion', 'openai', 'anthropic'),
    pipelines: fc.uniqueArray(
      fc.record({
        name: fc.constantFrom('one', 'two'),
        tables: fc.constant([{ table: 't', text_column: 'c', vector_column: 'v' }]),
        completion_llm: maybe(llm('own', 'openai', 'anthropic')),
      }),
      { minLength: 1, maxLength: 2, selector: ({ name }) => name },
    ),
  }),
})
/** JSON has no members that are undefined. */
const requested = fc.tuple(maybe(mcp), maybe(rest), maybe(rag)).map(all => {
  const services = all.filter(service => service !== undefined)
  return serviceInputs.parse(JSON.parse(JSON.stringify(services)))
})

/** The state that the operator and the Secrets have after a write. */
function after(known: readonly KnownService[], services: readonly ServiceInput[]): KnownService[] {
  const decided = decideServices(services, known, context)
  // The cluster stores the decision, and returns the same.
  expect(serviceConfigs.parse(decided.services)).toEqual(decided.services)
  return decided.services.map(config => {
    const before = known.find(one => one.config.serviceId === config.serviceId)
    const written = decided.secrets.find(({ name }) => name === config.secret?.name)
    const isUnchanged = config.secret !== undefined && config.secret.name === before?.config.secret?.name
    const keys = written?.keys ?? (isUnchanged ? before.keys : {})
    return { config, keys, token: before?.token ?? `minted-${config.serviceId}` }
  })
}

const given = (input: ServiceInput, field: string): unknown => {
  const { mcp_config: ofMcp, rest_config: ofRest, rag_config: ofRag } = input
  const flat: Record<string, unknown> = {
    ...{ embedding_api_key: ofMcp?.embedding_api_key, init_tokens: ofMcp?.init_tokens, init_users: ofMcp?.init_users },
    ...{ jwt_secret: ofRest?.jwt_secret },
    embedding_llm_api_key: ofRag?.embedding_llm.api_key,
    completion_llm_api_key: ofRag?.completion_llm.api_key,
  }
  for (const pipeline of ofRag?.pipelines ?? [])
    flat[`pipelines.${pipeline.name}.completion_llm_api_key`] = pipeline.completion_llm?.api_key
  return flat[field]
}

/** Fields of models that a request no longer names are removed with them. */
const isNamed = (input: ServiceInput, field: string): boolean => {
  const [, name] = /^pipelines\.(\w+)\./.exec(field) ?? []
  if (name === undefined) return true
  return input.rag_config?.pipelines.some(one => one.name === name && one.completion_llm !== undefined) ?? true
}

function expectUnchanged(before: KnownService, now: KnownService, input: ServiceInput): void {
  expect(now.config.serviceId).toBe(before.config.serviceId)
  expect(now.token).toBe(before.token)
  if (input.ip_allowlist === undefined) expect(now.config.ipAllowlist).toEqual(before.config.ipAllowlist)
  if (input.host_ids === undefined) expect(now.config.hostIds).toEqual(before.config.hostIds)
  if (input.mcp_config === undefined) expect(now.config.mcp).toEqual(before.config.mcp)
  for (const [field, value] of Object.entries(before.keys)) {
    if (!isNamed(input, field)) continue
    const requested = given(input, field)
    expect(now.keys[field], field).toBe(requested === undefined ? value : (requested ?? undefined))
  }
}

test('no sequence of PATCHes generates a new token, opens an allowlist, or loses a key', () => {
  let refused = 0
  let applied = 0
  fc.assert(
    fc.property(fc.array(requested, { minLength: 1, maxLength: 8 }), requests => {
      let known: KnownService[] = []
      for (const services of requests) {
        let next: KnownService[]
        try {
          next = after(known, services)
        } catch (error) {
          if (!(error instanceof ApiError)) throw error
          refused++
          continue
        }
        applied++
        expect(next.map(({ config }) => config.serviceType).toSorted()).toEqual(
          services.map(({ service_type: type }) => type).toSorted(),
        )
        expect(JSON.stringify(next.map(({ config }) => config))).not.toContain('-secret-')
        for (const input of services) {
          const find = (all: readonly KnownService[]) =>
            all.find(({ config }) => config.serviceType === input.service_type)
          const [before, now] = [find(known), find(next)]
          if (now === undefined) throw new Error('a service is missing')
          if (before !== undefined) expectUnchanged(before, now, input)
          else if (input.ip_allowlist === undefined) expect(now.config.ipAllowlist).toEqual({ rules: [] })
        }
        // The same list again, in any order, changes nothing.
        const again = decideServices(services.toReversed(), next, context)
        expect(again.secrets).toEqual([])
        expect(again.services).toEqual(next.map(({ config }) => config))
        known = next
      }
    }),
    { numRuns: 300 },
  )
  expect(applied).toBeGreaterThan(300)
  expect(refused).toBeGreaterThan(100)
})

test('a branch of a branch has its own ids, and no hosts of its source', () => {
  const config: ServiceConfig = {
    ...{ serviceType: 'mcp', serviceId: 'aaaaaaaa', hostIds: ['node-a'], targetNodes: ['db-1-0'] },
    ...{ ipAllowlist: { rules: [] }, mcp: { allowWrites: false }, secret: { name: 'source' } },
  }
  const { services, secrets } = servicesOfBranch(
    [{ config, keys: { embedding_api_key: 'k', init_tokens: 'i' }, token: 't' }],
    context,
  )
  expect(services).toEqual([
    {
      ...{ serviceType: 'mcp', serviceId: expect.not.stringMatching('aaaaaaaa'), ipAllowlist: { rules: [] } },
      ...{ mcp: { allowWrites: false }, secret: { name: secrets[0]?.name } },
    },
  ])
  expect(secrets).toMatchObject([{ keys: { embedding_api_key: 'k' } }])
})
