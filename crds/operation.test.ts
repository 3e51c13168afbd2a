import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { apiVersion } from './kind.ts'
import type { DatabasePhase, ManagedDatabase, ManagedDatabaseSpec } from './managed-database.ts'
import { managedDatabase } from './managed-database.ts'
import { annotations, type Rotations, rotationAnnotations } from './metadata.ts'
import {
  type Asked,
  appliedDigests,
  askedBy,
  awaitedRotations,
  canonicalJson,
  desiredDigests,
  desiredHash,
  hashOver,
  isInForce,
  isRestoreAsked,
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
 * What objects in running installations carry. None of these may ever change: see the module comment of operation.ts for
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
      'what takes no work',
      { displayName: 'Shop', options: ['x'], deletionProtection: true, backup, deletion: { keepBackups: true } },
      '1e2c7f0af521b58b4e2af562bc59c5da',
    ],
  ])('%s', (_name, more, hash) => {
    const base = { region: 'local', size: { name: 'small', version: 1 }, pgVersion: '18' }
    const { restart, rotations, restore, ...rest } = more as Pick<Asked, 'restart' | 'rotations' | 'restore'>
    const asked = { ...managedDatabase.spec.parse({ ...base, ...rest }), restart, rotations, restore }
    expect(desiredHash(asked)).toBe(hash)
  })
})

/** A version that knows a member more than its neighbour. */
describe('neighbouring versions', () => {
  type Newer = Asked & { rotation?: number }
  const older: Record<string, Member> = {
    cidrs: { of: ({ ipAllowlist }) => ipAllowlist.rules.map(rule => rule.cidr), operation: 'update-managed' },
    suspended: { of: ({ suspended }) => suspended, operation: 'update-managed' },
  }
  const rotation: Member = { of: (asked: Newer) => asked.rotation || undefined, operation: 'rotate-password-managed' }
  const newer = { ...older, rotation }

  test('agree on every object that does not use it, absent or default', () => {
    fc.assert(
      fc.property(fc.boolean(), fc.array(fc.ipV4()), fc.constantFrom({}, { rotation: 0 }), (suspended, cidrs, more) => {
        const asked = { ...spec, suspended, ipAllowlist: { rules: cidrs.map(cidr => ({ cidr })) }, ...more }
        expect(hashOver(newer, asked)).toBe(hashOver(older, asked))
      }),
    )
  })

  test('and differ where it is used', () => {
    const asked: Newer = { ...spec, rotation: 1 }
    expect(hashOver(newer, asked)).not.toBe(hashOver(older, asked))
  })

  test('an object with fields of tomorrow is hashed by those of today', () => {
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

  test('resumption, whatever of it is known', () => {
    const after = desiredDigests(spec)
    for (const before of [desiredDigests({ ...spec, suspended: true }), { ...after, suspended: '' }])
      expect(operationOfChange(before, after)).toBe('resume-managed')
  })

  test.each<[string, Partial<ManagedDatabaseSpec>, Operation['name']]>([
    ['alone', {}, 'update-managed'],
    ['beside another change', otherRules, 'update-managed-ip-allowlists'],
  ])('a restart that is asked for no more, %s, is not named', (_name, change, name) => {
    const restart = { restart: 'now' } as object
    expect(operationOfChange(desiredDigests({ ...spec, ...restart }), desiredDigests({ ...spec, ...change }))).toBe(
      name,
    )
  })

  test('a member that neither or only one side knows', () => {
    const before = desiredDigests(spec)
    expect(operationOfChange(before, { ...before, tomorrow: 'x' })).toBe('update-managed')
  })
})

describe('awaitedRotations', () => {
  const asking = (
    asked: Rotations,
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
      metadata: { ...base.metadata, annotations: annotationsOf(asked) },
      ...(applied && { status: { appliedHash: hash, appliedDigests: { hash, members } } }),
    }
  }
  const rolesOf = (of: ManagedDatabase) => Object.keys(awaitedRotations(of))

  test.each<[string, ManagedDatabase, string[]]>([
    ['none of a database that never served', asking({ app: 'a' }), []],
    ['none without annotations', asking({}, {}), []],
    ['one that is asked for', asking({ app: 'a' }, {}), ['app']],
    ['another one of that role', asking({ app: 'b' }, { app: 'a' }), ['app']],
    ['of two roles the one that is new', asking({ app: 'a', admin: 'b' }, { app: 'a' }), ['admin']],
    ['none that is done', asking({ app: 'a' }, { app: 'a' }), []],
    ['none that is done, beside another change', asking({ app: 'a' }, { app: 'a' }, otherRules), []],
    ['none that is asked for no more', asking({}, { app: 'a' }), []],
    ['none of those asked for no more, beside a new one', asking({ admin: 'b' }, { app: 'a' }), ['admin']],
  ])('%s', (_name, of, roles) => {
    expect(rolesOf(of)).toEqual(roles)
  })

  test('another asking has another name, and that of one role is no secret of its text', () => {
    const [first, second] = ['a', 'b'].map(value => awaitedRotations(asking({ app: value.repeat(100) }, {})).app)
    expect(first).toMatch(/^[0-9a-f]{16}$/)
    expect(second).not.toBe(first)
  })
})

describe('isInForce', () => {
  const asking = (restart: string | undefined, change: Partial<ManagedDatabaseSpec> = {}): ManagedDatabase => {
    const base = database({ spec: change })
    const asked = restart === undefined ? {} : { annotations: { [annotations.restart]: restart } }
    return { ...base, metadata: { ...base.metadata, ...asked } }
  }
  const applied = (of: ManagedDatabase) => {
    const hash = desiredHash(askedBy(of))
    return {
      phase: 'available' as const,
      appliedHash: hash,
      appliedDigests: { hash, members: desiredDigests(askedBy(of)) },
    }
  }
  const before = applied(asking('first'))

  test.each<[string, ManagedDatabase, boolean]>([
    ['the same', asking('first'), true],
    ['another restart', asking('second'), false],
    ['no restart any more', asking(undefined), true],
    ['no restart any more, and other rules', asking(undefined, otherRules), false],
  ])('%s', (_name, now, is) => {
    expect(isInForce({ ...now, status: before })).toBe(is)
    expect(visiblePhase({ ...now, status: before })).toBe(is ? 'available' : 'modifying')
  })

  test('is told by the hash alone where an older operator wrote no digests', () => {
    const { appliedDigests: _, ...older } = before
    expect(isInForce({ ...asking('first'), status: older })).toBe(true)
    expect(isInForce({ ...asking(undefined), status: older })).toBe(false)
  })
})

test('digests count only beside the hash they were written with', () => {
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

describe('readOperation', () => {
  const operation = (hash: string, name: Operation['name'] = 'update-managed'): Operation => ({
    taskId: '0b0f6f4e-8f8e-4d9b-9a53-6f0b1c2d3e4f',
    name,
    hash,
  })
  const read = (text: string) => readOperation(database({ operation: text }))

  test('gives what was rendered, while the spec asks it', () => {
    const current = operation(desiredHash(spec))
    expect(read(renderOperation(current))).toEqual(current)
  })

  test('an operation that an older spec asked is none any more, save a deletion', () => {
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
  ])('text that is no operation, %s, is none', text => {
    expect(read(text)).toBeUndefined()
  })

  test('no annotation is none', () => {
    expect(readOperation(database({}))).toBeUndefined()
  })
})

describe('a restore that is asked for', () => {
  const asking = (status: ManagedDatabase['status']): ManagedDatabase => {
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
  ])('is seen of a database that is %s', (phase, expected) => {
    expect(isRestoreAsked(asking({ phase }))).toBe(true)
    expect(visiblePhase(asking({ phase }))).toBe(expected)
  })
  test('is none once it has come to its end, nor of a database that never served', () => {
    const { spec, metadata } = asking({})
    const hash = desiredHash(askedBy({ spec, metadata }))
    expect(isRestoreAsked(asking({ appliedHash: hash }))).toBe(false)
    expect(visiblePhase(asking({ appliedHash: hash }))).toBe('available')
    expect(isRestoreAsked(asking({ appliedHash: undefined }))).toBe(false)
    expect(isRestoreAsked(database({ phase: 'available' }))).toBe(false)
  })
})

test('removing a setting is a change, and removing the request of an action is none', () => {
  const after = { services: 's' }
  expect(operationOfChange({ ...after, cidrs: 'c' }, after)).toBe('update-managed-ip-allowlists')
  expect(operationOfChange({ ...after, cidrs: 'c', restart: 'r' }, after)).toBe('update-managed-ip-allowlists')
})

describe('visiblePhase', () => {
  test.each<[string, Parameters<typeof database>[0], DatabasePhase]>([
    ['no status yet', {}, 'creating'],
    ['settled on what is asked', { phase: 'available' }, 'available'],
    ['asked for something else since', { phase: 'available', spec: otherRules }, 'modifying'],
    ['degraded, and asked for something else since', { phase: 'degraded', spec: otherRules }, 'modifying'],
    ['asked to be suspended', { phase: 'available', spec: { suspended: true } }, 'suspending'],
    ['asked to resume', { phase: 'suspended', applied: desiredHash({ ...spec, suspended: true }) }, 'resuming'],
    [
      'changed while suspended',
      { phase: 'suspended', spec: { suspended: true, ...otherRules }, applied: 'older' },
      'suspended',
    ],
    ['on the way already', { phase: 'restoring', spec: otherRules }, 'restoring'],
    ['failed stays failed', { phase: 'failed', spec: otherRules }, 'failed'],
    ['marked for deletion', { phase: 'available', deleting: true }, 'deleting'],
  ])('%s', (_name, change, phase) => {
    expect(visiblePhase(database(change))).toBe(phase)
  })
})
