import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { apiVersion } from './kind.ts'
import type { DatabasePhase, ManagedDatabase, ManagedDatabaseSpec } from './managed-database.ts'
import { managedDatabase } from './managed-database.ts'
import { annotations } from './metadata.ts'
import {
  canonicalJson,
  desiredHash,
  type Operation,
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

test('canonicalJson does not depend on the order of keys, and parses to the same value', () => {
  fc.assert(
    fc.property(fc.jsonValue(), value => {
      const text = canonicalJson(value)
      expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)))
      expect(canonicalJson(reversed(value))).toBe(text)
    }),
  )
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
