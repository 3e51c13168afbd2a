import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { apiVersion } from './kind.ts'
import type { DatabasePhase, ManagedDatabase, ManagedDatabaseSpec } from './managed-database.ts'
import { managedDatabase } from './managed-database.ts'
import { annotations, type Rotations, rotationAnnotations } from './metadata.ts'
import {
  appliedDigests,
  awaitedRotations,
  canonicalJson,
  type DesiredState,
  desiredDigests,
  desiredHash,
  desiredStateOf,
  hashOver,
  isInForce,
  isRestoreRequested,
  type Member,
  type Operation,
  operationOfChange,
  readOperation,
  renderOperation,
  visiblePhase,
} from './operation.ts'

const spec: ManagedDatabaseSpec = managedDatabase.spec.parse({
  region: 'local',
  size: { name: 'small', version: 1 },
  pgVersion: '18',
  ipAllowlist: { rules: [{ cidr: '203.0.113.0/24', label: 'office' }] },
})

const database = (change: {
  spec?: Partial<ManagedDatabaseSpec>
  phase?: DatabasePhase
  applied?: string
  operation?: string
  deleting?: boolean
}): ManagedDatabase => ({
  apiVersion,
  kind: 'ManagedDatabase',
  metadata: {
    name: 'shop',
    ...(change.operation === undefined ? {} : { annotations: { [annotations.operation]: change.operation } }),
    ...(change.deleting ? { deletionTimestamp: '2026-01-01T00:00:00Z' } : {}),
  },
  spec: { ...spec, ...change.spec },
  ...(change.phase ? { status: { phase: change.phase, appliedHash: change.applied ?? desiredHash(spec) } } : {}),
})

const otherRules = { ipAllowlist: { rules: [{ cidr: '198.51.100.0/24' }] } }

describe('desiredHash', () => {
  test.each<[string, Partial<ManagedDatabaseSpec>]>([
    ['a rule', otherRules],
    ['the size', { size: { name: 'small', version: 2 } }],
    ['suspension', { suspended: true }],
  ])('changes with %s', (_name, change) => {
    expect(desiredHash({ ...spec, ...change })).not.toBe(desiredHash(spec))
  })

  test.each<[string, Partial<ManagedDatabaseSpec>]>([
    ['the display name', { displayName: 'Shop' }],
    ['options', { options: ['a'] }],
    ['deletion protection', { deletionProtection: true }],
    ["a rule's label", { ipAllowlist: { rules: [{ cidr: '203.0.113.0/24', label: 'home' }] } }],
  ])('does not change with %s', (_name, change) => {
    expect(desiredHash({ ...spec, ...change })).toBe(desiredHash(spec))
  })
})

/**
 * The hashes of objects in running installations. None of them may ever change. The module comment of operation.ts says
 * how to add a member.
 */
describe('golden hashes', () => {
  const tables = [{ table: 't', textColumn: 'a', vectorColumn: 'b' }]
  const rag = {
    embeddingLlm: { provider: 'openai', model: 'e' },
    completionLlm: { provider: 'anthropic', model: 'c' },
    pipelines: [{ name: 'docs', tables }],
  }
  const rest = {
    serviceType: 'rest',
    serviceId: '00000001',
    rest: { dbSchemas: 'public', dbAnonRole: 'anon' },
    ipAllowlist: { rules: [{ cidr: '192.0.2.7' }] },
    secret: { name: 's' },
  }
  const rules = [{ cidr: '203.0.113.0/24', label: 'office' }, { cidr: '10.0.0.1' }]
  const backup = { schedule: '0 3 * * *', retentionDays: 7, durable: true }
  test.each<[string, object, string]>([
    ['the least', {}, '1e2c7f0af521b58b4e2af562bc59c5da'],
    ['rules', { ipAllowlist: { rules } }, '2b37370321ec72cfaaa267b73618d932'],
    ['another size', { size: { name: 'large', version: 3 } }, '715b1ca6472d2f0e3790b43f34b65a04'],
    ['suspended', { suspended: true }, 'fe8d49daba19bbd616b275a986ed07aa'],
    [
      'a service with its defaults',
      { services: [{ serviceType: 'mcp', serviceId: '0a1b2c3d', mcp: {} }] },
      '170fc57dfd5e8c3a1d1cffcbd37e3316',
    ],
    [
      'two services',
      { services: [rest, { serviceType: 'rag', serviceId: '00000002', rag }] },
      '7ed764df2b43749925e22f7561a72982',
    ],
    ['a restart', { restart: '2026-01-01T00:00:00Z' }, '480ab6161e06133a8d42980726418e57'],
    ['no rotation', { rotations: {} }, '1e2c7f0af521b58b4e2af562bc59c5da'],
    ['a rotation', { rotations: { app: '2026-01-01T00:00:00Z' } }, '152e02db1eed9bbfe54c27ae2d17502b'],
    ['rotations', { rotations: { admin: 'a', app_read_only: 'b' } }, 'f25f51e2378283a96f023868fa926ad8'],
    ['a restore', { restore: 'x' }, 'ba06e493a984a723ece96b680e8aedac'],
    [
      'changes that cause no work',
      { displayName: 'Shop', options: ['x'], deletionProtection: true, backup, deletion: { keepBackups: true } },
      '1e2c7f0af521b58b4e2af562bc59c5da',
    ],
  ])('%s', (_name, more, hash) => {
    const base = { region: 'local', size: { name: 'small', version: 1 }, pgVersion: '18' }
    const { restart, rotations, restore, ...rest } = more as Pick<DesiredState, 'restart' | 'rotations' | 'restore'>
    const desired = { ...managedDatabase.spec.parse({ ...base, ...rest }), restart, rotations, restore }
    expect(desiredHash(desired)).toBe(hash)
  })
})

/** A version that has one member more than the neighbouring version. */
describe('neighbouring versions', () => {
  type Newer = DesiredState & { rotation?: number }
  const older: Record<string, Member> = {
    cidrs: { of: ({ ipAllowlist }) => ipAllowlist.rules.map(rule => rule.cidr), operation: 'update-managed' },
    suspended: { of: ({ suspended }) => suspended, operation: 'update-managed' },
  }
  const rotation: Member = {
    of: (desired: Newer) => desired.rotation || undefined,
    operation: 'rotate-password-managed',
  }
  const newer = { ...older, rotation }

  test('agree on every object that does not use the member, whether the field is absent or has its default', () => {
    fc.assert(
      fc.property(fc.boolean(), fc.array(fc.ipV4()), fc.constantFrom({}, { rotation: 0 }), (suspended, cidrs, more) => {
        const desired = { ...spec, suspended, ipAllowlist: { rules: cidrs.map(cidr => ({ cidr })) }, ...more }
        expect(hashOver(newer, desired)).toBe(hashOver(older, desired))
      }),
    )
  })

  test('differ if the member is used', () => {
    const desired: Newer = { ...spec, rotation: 1 }
    expect(hashOver(newer, desired)).not.toBe(hashOver(older, desired))
  })

  test('an object with fields of a newer version is hashed by the known fields', () => {
    expect(desiredHash({ ...spec, rotation: 3 } as typeof spec)).toBe(desiredHash(spec))
  })
})

describe('operationOfChange', () => {
  const rest = { serviceType: 'rest' as const, serviceId: '00000001', ipAllowlist: { rules: [] } }
  test.each<[string, Partial<ManagedDatabaseSpec>, Operation['name']]>([
    ['size', { size: { name: 'large', version: 1 } }, 'update-managed-size'],
    ['its version', { size: { name: 'small', version: 2 } }, 'update-managed-size'],
    ['allowlist', otherRules, 'update-managed-ip-allowlists'],
    ['services', { services: [rest] }, 'update-managed'],
    ['suspension', { suspended: true }, 'suspend-managed'],
    ['suspension and allowlist', { suspended: true, ...otherRules }, 'update-managed'],
    ['a restart', { restart: 'now' } as object, 'restart-managed'],
    ['a rotation', { rotations: { app: 'now' } } as object, 'rotate-password-managed'],
    ['rotations of two roles', { rotations: { app: 'now', admin: 'now' } } as object, 'rotate-password-managed'],
    ['a rotation and a restart', { rotations: { app: 'now' }, restart: 'now' } as object, 'update-managed'],
    ['size and allowlist', { size: { name: 'large', version: 1 }, ...otherRules }, 'update-managed'],
    ['nothing', {}, 'update-managed'],
  ])('%s', (_name, change, name) => {
    expect(operationOfChange(desiredDigests(spec), desiredDigests({ ...spec, ...change }))).toBe(name)
  })

  test('resumption, with complete or incomplete digests', () => {
    const after = desiredDigests(spec)
    for (const before of [desiredDigests({ ...spec, suspended: true }), { ...after, suspended: '' }])
      expect(operationOfChange(before, after)).toBe('resume-managed')
  })

  test.each<[string, Partial<ManagedDatabaseSpec>, Operation['name']]>([
    ['alone', {}, 'update-managed'],
    ['beside another change', otherRules, 'update-managed-ip-allowlists'],
  ])('a withdrawn restart request, %s, is not named', (_name, change, name) => {
    const restart = { restart: 'now' } as object
    expect(operationOfChange(desiredDigests({ ...spec, ...restart }), desiredDigests({ ...spec, ...change }))).toBe(
      name,
    )
  })

  test('a member that no side, or only one side, has', () => {
    const before = desiredDigests(spec)
    expect(operationOfChange(before, { ...before, tomorrow: 'x' })).toBe('update-managed')
  })
})

describe('awaitedRotations', () => {
  const databaseWith = (
    desired: Rotations,
    applied?: Rotations,
    change: Partial<ManagedDatabaseSpec> = {},
  ): ManagedDatabase => {
    const base = database({ spec: change })
    const annotationsOf = (rotations: Rotations) =>
      Object.fromEntries(Object.entries(rotations).map(([role, value]) => [rotationAnnotations[role as 'app'], value]))
    const before = { ...spec, rotations: applied }
    const [hash, members] = [desiredHash(before), desiredDigests(before)]
    return {
      ...base,
      metadata: { ...base.metadata, annotations: annotationsOf(desired) },
      ...(applied && { status: { appliedHash: hash, appliedDigests: { hash, members } } }),
    }
  }
  const rolesOf = (of: ManagedDatabase) => Object.keys(awaitedRotations(of))

  test.each<[string, ManagedDatabase, string[]]>([
    ['no rotation of a database that never served', databaseWith({ app: 'a' }), []],
    ['no rotation without annotations', databaseWith({}, {}), []],
    ['a requested rotation', databaseWith({ app: 'a' }, {}), ['app']],
    ['another rotation of that role', databaseWith({ app: 'b' }, { app: 'a' }), ['app']],
    ['only the new rotation of two roles', databaseWith({ app: 'a', admin: 'b' }, { app: 'a' }), ['admin']],
    ['no completed rotation', databaseWith({ app: 'a' }, { app: 'a' }), []],
    ['no completed rotation, beside another change', databaseWith({ app: 'a' }, { app: 'a' }, otherRules), []],
    ['no rotation whose request was withdrawn', databaseWith({}, { app: 'a' }), []],
    ['a new rotation beside a withdrawn one', databaseWith({ admin: 'b' }, { app: 'a' }), ['admin']],
  ])('%s', (_name, of, roles) => {
    expect(rolesOf(of)).toEqual(roles)
  })

  test('another request has another name, and the name for one role does not reveal its text', () => {
    const [first, second] = ['a', 'b'].map(value => awaitedRotations(databaseWith({ app: value.repeat(100) }, {})).app)
    expect(first).toMatch(/^[0-9a-f]{16}$/)
    expect(second).not.toBe(first)
  })
})

describe('isInForce', () => {
  const databaseWith = (restart: string | undefined, change: Partial<ManagedDatabaseSpec> = {}): ManagedDatabase => {
    const base = database({ spec: change })
    const desired = restart === undefined ? {} : { annotations: { [annotations.restart]: restart } }
    return { ...base, metadata: { ...base.metadata, ...desired } }
  }
  const applied = (of: ManagedDatabase) => {
    const hash = desiredHash(desiredStateOf(of))
    return {
      phase: 'available' as const,
      appliedHash: hash,
      appliedDigests: { hash, members: desiredDigests(desiredStateOf(of)) },
    }
  }
  const before = applied(databaseWith('first'))

  test.each<[string, ManagedDatabase, boolean]>([
    ['unchanged', databaseWith('first'), true],
    ['another restart', databaseWith('second'), false],
    ['the restart request was removed', databaseWith(undefined), true],
    ['the restart request was removed, and rules changed', databaseWith(undefined, otherRules), false],
  ])('%s', (_name, now, is) => {
    expect(isInForce({ ...now, status: before })).toBe(is)
    expect(visiblePhase({ ...now, status: before })).toBe(is ? 'available' : 'modifying')
  })

  test('uses only the hash if an older operator wrote no digests', () => {
    const { appliedDigests: _, ...older } = before
    expect(isInForce({ ...databaseWith('first'), status: older })).toBe(true)
    expect(isInForce({ ...databaseWith(undefined), status: older })).toBe(false)
  })
})

test('ignores digests whose hash differs from the applied one', () => {
  const members = desiredDigests(spec)
  const withDigests = (hash: string) => ({
    status: { appliedHash: desiredHash(spec), appliedDigests: { hash, members } },
  })
  expect(appliedDigests(withDigests(desiredHash(spec)))).toEqual(members)
  expect(appliedDigests(withDigests('of an older operator'))).toBeUndefined()
  expect(appliedDigests({ status: { appliedHash: desiredHash(spec) } })).toBeUndefined()
})

test('canonicalJson does not depend on the order of keys, and parses to the same value', () => {
  fc.assert(
    fc.property(fc.jsonValue(), value => {
      const text = canonicalJson(value)
      expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)))
      expect(canonicalJson(reversed(value))).toBe(text)
    }),
  )
})

test('canonicalJson gives the text that hashes of existing objects were made from', () => {
  const before = (value: unknown) =>
    JSON.stringify(value, (_key, inner: unknown) =>
      inner !== null && typeof inner === 'object' && !Array.isArray(inner)
        ? Object.fromEntries(Object.entries(inner).sort(([left], [right]) => (left < right ? -1 : 1)))
        : inner,
    )
  const odd = [
    { b: undefined, a: [undefined, null], '10': 1, '9': 2, é: '\u2028' },
    JSON.parse('{"z":{"__proto__":{"b":1,"a":2}},"a":0}'),
    new Date(0),
    { at: new Date(0), nan: Number.NaN },
    'text',
    undefined,
  ]
  expect(odd.map(canonicalJson)).toEqual(odd.map(before))
  fc.assert(fc.property(fc.jsonValue(), value => canonicalJson(value) === before(value)))
})

function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, inner]) => [key, reversed(inner)]),
  )
}

describe('canonicalJson gives the text from which the hashes of existing objects were computed', () => {
  const operation = (hash: string, name: Operation['name'] = 'update-managed'): Operation => ({
    taskId: '0b0f6f4e-8f8e-4d9b-9a53-6f0b1c2d3e4f',
    name,
    hash,
  })
  const read = (text: string) => readOperation(database({ operation: text }))

  test('returns the rendered operation while the spec still requests it', () => {
    const current = operation(desiredHash(spec))
    expect(read(renderOperation(current))).toEqual(current)
  })

  test('ignores an operation that an older spec requested, except a deletion', () => {
    expect(read(renderOperation(operation('older')))).toBeUndefined()
    expect(read(renderOperation(operation('older', 'delete-managed')))).toBeDefined()
  })

  test.each([
    '',
    '{',
    '[]',
    'null',
    '{"taskId":"1"}',
    renderOperation({ ...operation(desiredHash(spec)), taskId: 'x' }),
  ])('ignores text that is not an operation: %s', text => {
    expect(read(text)).toBeUndefined()
  })

  test('returns undefined without an annotation', () => {
    expect(readOperation(database({}))).toBeUndefined()
  })
})

describe('a requested restore', () => {
  const databaseWith = (status: ManagedDatabase['status']): ManagedDatabase => {
    const base = database({ phase: 'available' })
    const metadata = { ...base.metadata, annotations: { [annotations.restore]: '{"name":"back"}' } }
    return { ...base, metadata, status: { ...base.status, ...status } }
  }
  test.each<[DatabasePhase, DatabasePhase]>([
    ['available', 'restoring'],
    ['degraded', 'restoring'],
    ['failed', 'restoring'],
    ['suspended', 'restoring'],
    ['modifying', 'restoring'],
    ['creating', 'creating'],
  ])('is pending for a database that is %s', (phase, expected) => {
    expect(isRestoreRequested(databaseWith({ phase }))).toBe(true)
    expect(visiblePhase(databaseWith({ phase }))).toBe(expected)
  })
  test('is not pending after it has ended, and not for a database that never served', () => {
    const { spec, metadata } = databaseWith({})
    const hash = desiredHash(desiredStateOf({ spec, metadata }))
    expect(isRestoreRequested(databaseWith({ appliedHash: hash }))).toBe(false)
    expect(visiblePhase(databaseWith({ appliedHash: hash }))).toBe('available')
    expect(isRestoreRequested(databaseWith({ appliedHash: undefined }))).toBe(false)
    expect(isRestoreRequested(database({ phase: 'available' }))).toBe(false)
  })
})

test('the removal of a setting is a change; the removal of a request for an action is not', () => {
  const after = { services: 's' }
  expect(operationOfChange({ ...after, cidrs: 'c' }, after)).toBe('update-managed-ip-allowlists')
  expect(operationOfChange({ ...after, cidrs: 'c', restart: 'r' }, after)).toBe('update-managed-ip-allowlists')
})

describe('visiblePhase', () => {
  test.each<[string, Parameters<typeof database>[0], DatabasePhase]>([
    ['no status yet', {}, 'creating'],
    ['applied', { phase: 'available' }, 'available'],
    ['changed since', { phase: 'available', spec: otherRules }, 'modifying'],
    ['degraded, and changed since', { phase: 'degraded', spec: otherRules }, 'modifying'],
    ['suspension requested', { phase: 'available', spec: { suspended: true } }, 'suspending'],
    ['resumption requested', { phase: 'suspended', applied: desiredHash({ ...spec, suspended: true }) }, 'resuming'],
    [
      'changed while suspended',
      { phase: 'suspended', spec: { suspended: true, ...otherRules }, applied: 'older' },
      'suspended',
    ],
    ['an operation is running already', { phase: 'restoring', spec: otherRules }, 'restoring'],
    ['failed, which stays failed', { phase: 'failed', spec: otherRules }, 'failed'],
    ['deletion requested', { phase: 'available', deleting: true }, 'deleting'],
  ])('%s', (_name, change, phase) => {
    expect(visiblePhase(database(change))).toBe(phase)
  })
})
