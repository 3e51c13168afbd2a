/** Property tests of server-side apply: laws for all objects, managers and lists, and the form of managedFields. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { kindInfo } from '../../cluster/kinds.ts'
import { childrenOf, difference, type FieldSet, intersection, isMember, union, without } from './fields.ts'
import { equal, freeze, type JsonObject, type JsonValue, objectIn } from './json.ts'
import { compare, fieldsOf, merge } from './merge.ts'
import { metadataOf } from './objects.ts'
import type { Resource } from './resource.ts'
import { atomic, fields, listBy, set } from './shape.ts'
import { configMap, testStore } from './testing/store.ts'
import { applied } from './writes.ts'

const shape = fields({
  names: set,
  whole: atomic,
  items: listBy(['name'], fields({ inner: listBy(['port', 'protocol'], fields({}), { protocol: 'TCP' }) })),
})
const resource: Resource = {
  kind: 'ConfigMap',
  info: kindInfo.ConfigMap,
  qualifiedKind: 'ConfigMap',
  qualifiedPlural: 'configmaps',
  shape,
  generation: 'none',
  initialStatus: undefined,
  finalizers: [],
  complete: object => object,
  unknownFields: () => [],
  validate: () => [],
}

const scalar = fc.oneof(fc.constantFrom('a', 'b', ''), fc.integer({ min: 0, max: 2 }), fc.boolean())
const record = fc.dictionary(fc.constantFrom('p', 'q', 'r'), scalar, { maxKeys: 3 })
const inner = fc.uniqueArray(
  fc.record(
    { port: fc.integer({ min: 1, max: 2 }), protocol: fc.constantFrom('TCP', 'UDP'), v: scalar },
    { requiredKeys: ['port'] },
  ),
  { selector: ({ port, protocol = 'TCP' }) => `${port}/${protocol}`, maxLength: 3 },
)
const items = fc.uniqueArray(
  fc.record(
    { name: fc.constantFrom('one', 'two', 'three'), value: scalar, more: record, inner },
    { requiredKeys: ['name'] },
  ),
  { selector: ({ name }) => name, maxLength: 3 },
)
const content = fc.record(
  {
    names: fc.uniqueArray(fc.constantFrom('x', 'y', 'z'), { maxLength: 3 }),
    whole: fc.oneof(record, fc.array(scalar, { maxLength: 2 })),
    items,
    data: fc.dictionary(fc.constantFrom('k', 'l', 'm'), fc.oneof(scalar, record), { maxKeys: 3 }),
  },
  { requiredKeys: [] },
)
type Content = typeof content extends fc.Arbitrary<infer T> ? T : never

const draftOf = (part: Content): JsonObject =>
  ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace: 'default', name: 'one' }, ...part }) as JsonObject

/** Consecutive applies, each `[manager, content]`. */
function applyAll(steps: readonly (readonly [string, Content])[], from?: JsonObject): JsonObject {
  let current = from
  for (const [manager, part] of steps) {
    current = freeze(applied({ resource, manager, now: 0 }, current, draftOf(part)).object)
  }
  return current ?? {}
}

const contentOf = ({ apiVersion: _a, kind: _k, metadata: _m, ...rest }: JsonObject): JsonObject => rest

describe('an apply', () => {
  test('repeated without changes returns the identical object', () => {
    fc.assert(
      fc.property(content, content, (other, own) => {
        const once = applyAll([
          ['their', other],
          ['our', own],
        ])
        expect(applyAll([['our', own]], once)).toBe(once)
      }),
    )
  })

  test('by the only manager makes the object equal to the applied content', () => {
    fc.assert(
      fc.property(content, content, (before, now) => {
        const both = applyAll([
          ['our', before],
          ['our', now],
        ])
        expect(contentOf(both)).toEqual(contentOf(applyAll([['our', now]])))
      }),
    )
  })

  test('of an empty object removes all fields of this manager, and no other fields', () => {
    fc.assert(
      fc.property(content, content, (own, other) => {
        const remaining = applyAll([
          ['our', own],
          ['their', other],
          ['our', {}],
        ])
        expect(contentOf(remaining)).toEqual(contentOf(applyAll([['their', other]])))
        expect(metadataOf(remaining).managedFields?.map(({ manager }) => manager) ?? []).not.toContain('our')
      }),
    )
  })

  test('owns exactly the fields that it sets', () => {
    fc.assert(
      fc.property(content, content, (other, own) => {
        const object = applyAll([
          ['their', other],
          ['our', own],
        ])
        const entry = metadataOf(object).managedFields?.find(({ manager }) => manager === 'our')
        expect(entry?.fieldsV1 ?? {}).toEqual(fieldsOf(shape, own as JsonValue))
      }),
    )
  })

  test('produces an object that contains every applied field', () => {
    fc.assert(
      fc.property(content, content, (live, above) => {
        const merged = merge(shape, live as JsonValue, above as JsonValue)
        expect(equal(merge(shape, merged, above as JsonValue), merged)).toBe(true)
        expect(paths(fieldsOf(shape, merged))).toEqual(expect.arrayContaining(scalarPaths(above as JsonObject)))
      }),
    )
  })

  test('finds no change between equal values, and no field that is both changed and removed', () => {
    fc.assert(
      fc.property(content, content, (one, other) => {
        expect(compare(shape, one as JsonValue, structuredClone(one) as JsonValue)).toEqual({
          changed: {},
          removed: {},
        })
        const { changed, removed } = compare(shape, one as JsonValue, other as JsonValue)
        expect(paths(intersection(changed, removed))).toEqual([])
      }),
    )
  })
})

/** All members of a set, as text. */
function paths(fieldSet: FieldSet, prefix = ''): string[] {
  return Object.keys(fieldSet).flatMap(element => [
    ...(isMember(fieldSet, element) ? [`${prefix}/${element}`] : []),
    ...paths(childrenOf(fieldSet, element), `${prefix}/${element}`),
  ])
}

/** The paths of scalars in `data`, which no merge can remove. */
const scalarPaths = (object: JsonObject): string[] =>
  Object.entries(objectIn(object, 'data')).flatMap(([key, value]) =>
    typeof value === 'object' ? [] : [`/f:data/f:${key}`],
  )

describe('sets of fields', () => {
  const fieldSets = content.map(part => fieldsOf(shape, part as JsonValue))
  const sorted = (all: Iterable<string>): string[] => [...all].sort()

  test('unite, intersect and subtract like sets of paths', () => {
    fc.assert(
      fc.property(fieldSets, fieldSets, (one, other) => {
        const [remaining, right] = [new Set(paths(one)), new Set(paths(other))]
        expect(sorted(paths(union(one, other)))).toEqual(sorted(remaining.union(right)))
        expect(sorted(paths(intersection(one, other)))).toEqual(sorted(remaining.intersection(right)))
        expect(sorted(paths(difference(one, other)))).toEqual(sorted(remaining.difference(right)))
      }),
    )
  })

  test('lose a removed path with everything below it', () => {
    fc.assert(
      fc.property(fieldSets, fieldSets, (one, other) => {
        const removed = paths(other)
        const remaining = paths(one).filter(path => !removed.some(each => path === each || path.startsWith(`${each}/`)))
        expect(sorted(paths(without(one, other)))).toEqual(sorted(remaining))
      }),
    )
  })
})

describe('managedFields', () => {
  test('distinguish apply, update and status writes, in FieldsV1', async () => {
    const { store, cluster } = await testStore({ now: () => Date.parse('2026-01-02T03:04:05.678Z') })
    const applied = await cluster.apply('ManagedDatabase', {
      apiVersion: 'espalier.dev/v1alpha1',
      kind: 'ManagedDatabase',
      metadata: { namespace: 'default', name: 'orders', labels: { a: '1' }, finalizers: ['espalier.dev/teardown'] },
      spec: { region: 'local', size: { name: 's', version: 1 }, pgVersion: '18', options: [] },
    })
    const ready = await store.connect('controller').replaceStatus('ManagedDatabase', {
      ...applied,
      status: {
        phase: 'available',
        conditions: [
          { type: 'Ready', status: 'True', reason: 'R', message: '', lastTransitionTime: '2026-01-02T03:04:05Z' },
        ],
      },
    })
    const edited = await store.connect('editor').replace('ManagedDatabase', {
      ...ready,
      spec: { ...ready.spec, suspended: true },
      metadata: { ...ready.metadata, labels: { a: '2' } },
    })
    const common = { apiVersion: 'espalier.dev/v1alpha1', time: '2026-01-02T03:04:05Z', fieldsType: 'FieldsV1' }
    expect(edited.metadata.managedFields).toEqual([
      {
        ...common,
        manager: 'test',
        operation: 'Apply',
        fieldsV1: {
          'f:metadata': { 'f:finalizers': { 'v:"espalier.dev/teardown"': {} } },
          'f:spec': {
            'f:options': {},
            'f:pgVersion': {},
            'f:region': {},
            'f:size': { 'f:name': {}, 'f:version': {} },
          },
        },
      },
      {
        ...common,
        manager: 'controller',
        operation: 'Update',
        subresource: 'status',
        fieldsV1: {
          'f:status': {
            'f:conditions': {
              'k:{"type":"Ready"}': {
                '.': {},
                'f:lastTransitionTime': {},
                'f:message': {},
                'f:reason': {},
                'f:status': {},
                'f:type': {},
              },
            },
            'f:phase': {},
          },
        },
      },
      {
        ...common,
        manager: 'editor',
        operation: 'Update',
        fieldsV1: { 'f:metadata': { 'f:labels': { 'f:a': {} } }, 'f:spec': { 'f:suspended': {} } },
      },
    ])
  })

  test('lose a field that another manager changes, and keep a field that another manager sets to the same value', async () => {
    const { store, cluster } = await testStore()
    await cluster.apply('ConfigMap', configMap('one', { taken: 'ours', shared: 'same' }))
    const other = await store.connect('other').apply('ConfigMap', configMap('one', { taken: 'theirs', shared: 'same' }))
    expect(other.metadata.managedFields?.map(({ manager, fieldsV1 }) => [manager, fieldsV1])).toEqual([
      ['test', { 'f:data': { 'f:shared': {} } }],
      ['other', { 'f:data': { 'f:shared': {}, 'f:taken': {} } }],
    ])
    const remaining = await store.connect('other').apply('ConfigMap', configMap('one'))
    expect(remaining.data).toEqual({ shared: 'same' })
  })

  test('are not accepted from clients: an apply with managedFields is refused, and a replace keeps the stored entries', async () => {
    const { cluster } = await testStore()
    const applied = await cluster.apply('ConfigMap', configMap('one', { a: '1' }))
    await expect(
      cluster.apply('ConfigMap', configMap('one', {}, { managedFields: applied.metadata.managedFields ?? [] })),
    ).rejects.toMatchObject({ reason: 'BadRequest' })
    const { managedFields: _dropped, ...metadata } = applied.metadata
    const replaced = await cluster.replace('ConfigMap', { ...applied, metadata })
    expect(replaced).toEqual(applied)
  })
})
