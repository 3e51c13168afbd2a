/**
 * Conformance: how a CustomResourceDefinition validates its objects: defaults, types, limits, unknown fields, CEL rules
 * on fields and on the root, and transition rules. Every error names the field.
 */
import { describe, expect, test } from 'vitest'
import { branch, database, size } from './drafts.ts'
import { keyOf, refusal, type Suite, uniqueName, untyped } from './suite.ts'

/** The change to a valid database's spec, and the expected error, which begins with the field. */
const malformed: { what: string; spec: object; expected: (string | RegExp)[] }[] = [
  { what: 'a wrong type', spec: { instances: 'one' }, expected: ['spec.instances', 'integer'] },
  { what: 'a fraction for an integer', spec: { instances: 1.5 }, expected: ['spec.instances', 'integer'] },
  { what: 'text for a boolean', spec: { suspended: 'yes' }, expected: ['spec.suspended', 'boolean'] },
  { what: 'a list for an object', spec: { size: [] }, expected: ['spec.size', 'object'] },
  {
    what: 'a value not in the enum',
    spec: { pgVersion: '15' },
    expected: ['spec.pgVersion', '"15"', '"16", "17", "18"'],
  },
  {
    what: 'text that does not match its pattern',
    spec: { ipAllowlist: { rules: [{ cidr: '192.0.2.1' }, { cidr: '::1' }] } },
    expected: ['spec.ipAllowlist.rules[1].cidr', '::1'],
  },
  { what: 'text too long', spec: { displayName: 'x'.repeat(26) }, expected: ['spec.displayName', '25'] },
  { what: 'text too short', spec: { region: '' }, expected: ['spec.region', /at least 1/] },
  {
    what: 'a number below its minimum',
    spec: { instances: 0 },
    expected: ['spec.instances', /greater than or equal to 1/],
  },
  {
    what: 'a number above its maximum',
    spec: { instances: 2 },
    expected: ['spec.instances', /less than or equal to 1/],
  },
  {
    what: 'too many items',
    spec: { options: Array.from({ length: 33 }, (_, i) => `${i}`) },
    expected: ['spec.options', '32'],
  },
  { what: 'a required field left out', spec: { region: undefined }, expected: ['spec.region', 'Required value'] },
  {
    what: 'a required field left out further in',
    spec: { size: { name: 'small' } },
    expected: ['spec.size.version', 'Required value'],
  },
  {
    what: 'null for a field that is not nullable',
    spec: { size: null },
    expected: ['spec.size', /null|Required value/],
  },
  { what: 'an unknown field', spec: { nonsense: true }, expected: ['spec.nonsense'] },
  {
    what: 'an unknown field further in',
    spec: { size: { name: 's', version: 1, disk: 1 } },
    expected: ['spec.size.disk'],
  },
  {
    what: 'an unknown field in a list item',
    spec: { ipAllowlist: { rules: [{ cidr: '192.0.2.1', port: 1 }] } },
    expected: [/spec\.ipAllowlist\.rules\[.*\]\.port/],
  },
  {
    what: 'two items of one key in a map list',
    spec: {
      services: [
        { serviceType: 'mcp', serviceId: 'aaaaaaaa' },
        { serviceType: 'mcp', serviceId: 'bbbbbbbb' },
      ],
    },
    expected: ['spec.services', /[Dd]uplicate/],
  },
  {
    what: 'a broken rule on a list item',
    spec: { services: [{ serviceType: 'rest', serviceId: 'aaaaaaaa' }] },
    expected: ['spec.services[0]', 'rest is required for a rest service'],
  },
]

export function describeValidation(suite: Suite): void {
  describe('defaults', () => {
    test('are set in objects that are created or applied', async () => {
      const namespace = await suite.namespace()
      const expected = {
        instances: 1,
        ipAllowlist: { rules: [] },
        services: [],
        options: [],
        deletionProtection: false,
        backup: { durable: false },
        suspended: false,
        deletion: { keepBackups: false },
      }
      const created = await suite.cluster().create('ManagedDatabase', database(namespace, 'created'))
      expect(created.spec).toMatchObject(expected)
      const applied = await suite.cluster().apply('ManagedDatabase', database(namespace, 'applied'))
      expect(applied.spec).toMatchObject(expected)
    })

    test('are set inside existing objects and list items, and in optional objects only if these are present', async () => {
      const namespace = await suite.namespace()
      const draft = database(namespace, 'orders', {
        spec: untyped<'ManagedDatabase'>({
          backup: { retentionDays: 7 },
          services: [
            { serviceType: 'mcp', serviceId: 'aaaaaaaa', mcp: {} },
            { serviceType: 'rest', serviceId: 'bbbbbbbb', rest: { dbSchemas: 'public', dbAnonRole: 'anonymous' } },
          ],
        }) as object,
      })
      const { spec } = await suite.cluster().create('ManagedDatabase', draft)
      expect(spec.backup).toEqual({ retentionDays: 7, durable: false })
      expect(spec.services).toEqual([
        { serviceType: 'mcp', serviceId: 'aaaaaaaa', ipAllowlist: { rules: [] }, mcp: { allowWrites: false } },
        {
          serviceType: 'rest',
          serviceId: 'bbbbbbbb',
          ipAllowlist: { rules: [] },
          rest: { dbSchemas: 'public', dbAnonRole: 'anonymous', dbPool: 10, maxRows: 1000 },
        },
      ])
    })

    test('are set again if a replace omits them', async () => {
      const namespace = await suite.namespace()
      const created = await suite.cluster().create('ManagedDatabase', database(namespace, 'orders'))
      const { instances: _instances, ...spec } = created.spec
      const replaced = await suite
        .cluster()
        .replace('ManagedDatabase', { ...created, spec: { ...spec, suspended: true } as typeof created.spec })
      expect(replaced.spec.instances).toBe(1)
    })
  })

  describe('a malformed object is Invalid, and no part of it is stored', () => {
    for (const { what, spec, expected } of malformed) {
      test(what, async () => {
        const namespace = await suite.namespace()
        const valid = database(namespace, 'orders')
        const draft = untyped<'ManagedDatabase'>({ ...valid, spec: { ...valid.spec, ...spec } })
        const check = (message: string, patterns: (string | RegExp)[]): void => {
          for (const word of patterns) expect(message).toMatch(word)
        }
        check((await refusal(suite.cluster().create('ManagedDatabase', draft), 'Invalid')).message, expected)
        // Server-side apply detects wrong types and unknown fields earlier, with its own messages.
        const applied = await refusal(suite.cluster().apply('ManagedDatabase', draft), 'Invalid')
        check(applied.message, expected.slice(0, 1))
        expect(await suite.cluster().get('ManagedDatabase', { namespace, name: 'orders' })).toBeUndefined()

        const created = await suite.cluster().create('ManagedDatabase', valid)
        const replacement = { ...created, spec: { ...created.spec, ...spec } }
        check((await refusal(suite.cluster().replace('ManagedDatabase', replacement), 'Invalid')).message, expected)
        expect(await suite.cluster().get('ManagedDatabase', keyOf(created))).toEqual(created)
      })
    }

    test('text length is counted in characters, not in bytes or UTF-16 units', async () => {
      const namespace = await suite.namespace()
      const named = (displayName: string) => database(namespace, 'orders', { spec: { displayName } })
      await refusal(suite.cluster().create('ManagedDatabase', named('🐘'.repeat(26))), 'Invalid')
      const created = await suite.cluster().create('ManagedDatabase', named('🐘'.repeat(25)))
      expect(created.spec.displayName).toBe('🐘'.repeat(25))
    })

    test('every invalid field is named, not only the first', async () => {
      const namespace = await suite.namespace()
      const draft = database(namespace, 'orders', { spec: { displayName: 'x'.repeat(26), instances: 5 } })
      const { message } = await refusal(suite.cluster().create('ManagedDatabase', draft), 'Invalid')
      expect(message).toContain('spec.displayName')
      expect(message).toContain('spec.instances')
    })

    test('a missing spec', async () => {
      const namespace = await suite.namespace()
      const { spec: _spec, ...draft } = database(namespace, 'orders')
      const { message } = await refusal(suite.cluster().create('ManagedDatabase', draft), 'Invalid')
      expect(message).toContain('spec: Required value')
    })

    test('a name or a label that Kubernetes does not accept', async () => {
      const namespace = await suite.namespace()
      const name = await refusal(
        suite.cluster().create('Task', {
          ...untyped<'Task'>(database(namespace, 'x')),
          apiVersion: 'espalier.dev/v1alpha1',
          kind: 'Task',
          metadata: { namespace, name: 'Not_A_Name' },
          spec: { name: 'create-managed', subject: { kind: 'database', id: 'x', name: 'x' } },
        }),
        'Invalid',
      )
      expect(name.message).toContain('metadata.name')
      const label = database(namespace, 'orders', { metadata: { labels: { 'a b': 'c' } } })
      expect((await refusal(suite.cluster().create('ManagedDatabase', label), 'Invalid')).message).toContain(
        'metadata.labels',
      )
      const value = database(namespace, 'orders', { metadata: { labels: { a: 'x'.repeat(64) } } })
      expect((await refusal(suite.cluster().create('ManagedDatabase', value), 'Invalid')).message).toContain(
        'metadata.labels',
      )
    })
  })

  describe('status', () => {
    test('is validated: wrong enum, unknown field, invalid time', async () => {
      const namespace = await suite.namespace()
      const created = await suite.cluster().create('Branch', branch(namespace, 'one'))
      const write = (status: object): Promise<unknown> =>
        suite.cluster().replaceStatus('Branch', { ...created, status: status as NonNullable<typeof created.status> })
      expect((await refusal(write({ phase: 'perfect' }), 'Invalid')).message).toContain('status.phase')
      expect((await refusal(write({ mood: 'good' }), 'Invalid')).message).toContain('status.mood')
      expect((await refusal(write({ connectableAt: 'soon' }), 'Invalid')).message).toContain('status.connectableAt')
      const ready = {
        type: 'Ready',
        status: 'True',
        reason: 'R',
        message: '',
        lastTransitionTime: '2026-01-02T03:04:05Z',
      }
      expect((await refusal(write({ conditions: [ready, ready] }), 'Invalid')).message).toContain(
        'status.conditions[1]',
      )
      expect(await suite.cluster().get('Branch', keyOf(created))).toEqual(created)
    })
  })

  describe('CEL rules', () => {
    test('a rule on the root: the name of a database', async () => {
      const namespace = await suite.namespace()
      for (const name of ['1orders', 'or-ders', `a${'b'.repeat(50)}`]) {
        const { message } = await refusal(
          suite.cluster().create('ManagedDatabase', database(namespace, name)),
          'Invalid',
        )
        expect(message).toContain('metadata.name must begin with a lower-case letter')
      }
      await suite.cluster().create('ManagedDatabase', database(namespace, `a${'b'.repeat(49)}`))
    })

    test('rules across fields, on create and on replace', async () => {
      const name = uniqueName('conformance')
      const wrong = size(name, { status: 'deprecated' })
      expect((await refusal(suite.cluster().create('Size', wrong), 'Invalid')).message).toContain(
        'deprecatedAt is set if',
      )
      suite.removeAfterwards('Size', `${name}-v1`)
      const created = await suite.cluster().create('Size', size(name))
      const retired = { ...created, spec: { ...created.spec, status: 'retired' as const } }
      const { message } = await refusal(suite.cluster().replace('Size', retired), 'Invalid')
      expect(message).toContain('retiredAt is set if')
    })

    test('a rule over the keys of a map', async () => {
      const name = uniqueName('conformance')
      const draft = size(name)
      const shape = draft.spec?.shape
      if (shape === undefined) throw new Error('the draft has a shape')
      for (const setting of ['fsync', 'zero_damaged_pages', 'ssl_ca_file', 'include_dir']) {
        const settings = { ...shape, postgresSettings: { [setting]: 'off' } }
        const { message } = await refusal(suite.cluster().create('Size', size(name, { shape: settings })), 'Invalid')
        expect(message).toContain('spec.shape.postgresSettings')
        expect(message).toContain('a size cannot set')
      }
    })

    test('lengths are counted in characters', async () => {
      const namespace = await suite.namespace()
      const herd = (count: number) => ({ spec: { displayName: '🐘'.repeat(count) } })
      const created = await suite.cluster().create('ManagedDatabase', database(namespace, 'herd', herd(25)))
      expect(created.spec.displayName).toBe('🐘'.repeat(25))
      const tooMany = suite.cluster().create('ManagedDatabase', database(namespace, 'crowd', herd(26)))
      expect((await refusal(tooMany, 'Invalid')).message).toContain('spec.displayName')
    })

    test('an immutable field refuses replace and apply alike, and is named in the error', async () => {
      const namespace = await suite.namespace()
      const created = await suite.cluster().create('ManagedDatabase', database(namespace, 'orders'))
      const moved = { ...created, spec: { ...created.spec, pgVersion: '18' as const } }
      const replaced = await refusal(suite.cluster().replace('ManagedDatabase', moved), 'Invalid')
      expect(replaced.message).toContain('spec.pgVersion')
      expect(replaced.message).toContain('pgVersion is immutable')
      const draft = database(namespace, 'orders', { spec: { pgVersion: '18' } })
      expect((await refusal(suite.cluster().apply('ManagedDatabase', draft), 'Invalid')).message).toContain('immutable')
      expect(await suite.cluster().get('ManagedDatabase', keyOf(created))).toEqual(created)
    })

    test('a fully immutable spec, and an immutable object within a spec', async () => {
      const namespace = await suite.namespace()
      const backup = await suite.cluster().create('Backup', {
        apiVersion: 'espalier.dev/v1alpha1',
        kind: 'Backup',
        metadata: { namespace, name: 'one' },
        spec: { databaseName: 'orders', databaseId: 'x', kind: 'hot' },
      })
      const changed = { ...backup, spec: { ...backup.spec, kind: 'durable' as const } }
      expect((await refusal(suite.cluster().replace('Backup', changed), 'Invalid')).message).toContain('immutable')
      const made = await suite.cluster().create('Branch', branch(namespace, 'one'))
      const bigger = { ...made, spec: { ...made.spec, size: { name: 'large', version: 1 } } }
      expect((await refusal(suite.cluster().replace('Branch', bigger), 'Invalid')).message).toContain(
        'size is immutable',
      )
    })

    test('a field that is set once, in an otherwise immutable spec', async () => {
      const namespace = await suite.namespace()
      const backup = await suite.cluster().create('Backup', {
        apiVersion: 'espalier.dev/v1alpha1',
        kind: 'Backup',
        metadata: { namespace, name: 'by-name' },
        spec: { databaseName: 'orders', kind: 'hot' },
      })
      expect(backup.spec).toEqual({ databaseName: 'orders', databaseId: '', kind: 'hot', purpose: 'user' })
      const { databaseId: _, ...unnamed } = branch(namespace, 'by-name').spec ?? {}
      const made = await suite.cluster().create('Branch', { ...branch(namespace, 'by-name'), spec: unnamed })
      const filled = await suite.cluster().replace('Backup', { ...backup, spec: { ...backup.spec, databaseId: 'x' } })
      const named = await suite.cluster().replace('Branch', { ...made, spec: { ...made.spec, databaseId: 'x' } })
      for (const databaseId of ['', 'y']) {
        const changed = { ...filled, spec: { ...filled.spec, databaseId } }
        expect((await refusal(suite.cluster().replace('Backup', changed), 'Invalid')).message).toContain('immutable')
        const other = { ...named, spec: { ...named.spec, databaseId } }
        expect((await refusal(suite.cluster().replace('Branch', other), 'Invalid')).message).toContain('immutable')
      }
      const sourceBranch = { name: 'one', id: 'x' }
      const added = { ...filled, spec: { ...filled.spec, sourceBranch } }
      expect((await refusal(suite.cluster().replace('Backup', added), 'Invalid')).message).toContain('immutable')
      // An apply without the field does not remove it.
      const again = await suite.cluster().apply('Backup', {
        apiVersion: 'espalier.dev/v1alpha1',
        kind: 'Backup',
        metadata: { namespace, name: 'by-name' },
        spec: { databaseName: 'orders', kind: 'hot' },
      })
      expect(again.spec.databaseId).toBe('x')
    })

    test('a field set once: transition rules do not run while there is no old value', async () => {
      const namespace = await suite.namespace()
      const created = await suite.cluster().create('Branch', branch(namespace, 'one'))
      const set = await suite.cluster().replace('Branch', {
        ...created,
        spec: { ...created.spec, deletionRequestedAt: '2026-01-02T03:04:05Z' },
      })
      expect(set.spec.deletionRequestedAt).toBe('2026-01-02T03:04:05Z')
      const again = { ...set, spec: { ...set.spec, deletionRequestedAt: '2026-01-02T03:04:06Z' } }
      expect((await refusal(suite.cluster().replace('Branch', again), 'Invalid')).message).toContain('only once')
      const { deletionRequestedAt: _gone, ...spec } = set.spec
      expect((await refusal(suite.cluster().replace('Branch', { ...set, spec }), 'Invalid')).message).toContain(
        'only once',
      )
      const named = { ...set, spec: { ...set.spec, displayName: 'late' } }
      expect((await refusal(suite.cluster().replace('Branch', named), 'Invalid')).message).toContain('displayName')
    })
  })
}
