import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { apiVersion, labels, type ManagedDatabase } from '../../crds/index.ts'
import { identityOf, precedes } from './identity.ts'

const id = '5e1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f'
const other = '6e1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f'

const database = (name: string, label: string | undefined, created: string, hasVolume = false) =>
  ({
    apiVersion,
    kind: 'ManagedDatabase',
    metadata: {
      name,
      namespace: 'n',
      uid: `uid-${name}`,
      creationTimestamp: created,
      labels: label === undefined ? {} : { [labels.id]: label },
    },
    status: hasVolume ? { volume: { claim: 'c', uid: 'u', systemIdentifier: '1' } } : {},
  }) as ManagedDatabase // `identityOf` does not read the spec

const [early, late] = ['2026-01-01T00:00:00Z', '2026-02-01T00:00:00Z']

describe('the id of a database', () => {
  test.each<[string, ManagedDatabase, string[], ManagedDatabase[], object]>([
    ['is its label', database('a', id, early), [], [], { state: 'settled', owner: { id } }],
    ['is new if there is none', database('a', undefined, early), [], [], { state: 'unsettled', id: undefined }],
    ['is new if the label is not a UUID', database('a', 'mine', early), [], [], { state: 'unsettled', id: undefined }],
    [
      'is that of its children, if it has no label',
      database('a', undefined, early),
      [id],
      [],
      { state: 'unsettled', id },
    ],
    [
      'is that of its children, if its label differs',
      database('a', other, early),
      [id],
      [],
      { state: 'unsettled', id },
    ],
    ['stays with the older database', database('a', id, early), [], [database('b', id, late)], { state: 'settled' }],
    [
      'is new for the younger database',
      database('b', id, late),
      [],
      [database('a', id, early)],
      { state: 'unsettled', id: undefined },
    ],
    [
      'stays with a younger database that has used it',
      database('b', id, late),
      [id],
      [database('a', id, early)],
      { state: 'settled' },
    ],
  ])('%s', (_, subject, children, others, expected) => {
    expect(identityOf(subject, { childOwnerIds: children, others, orphanClaims: [] })).toMatchObject(expected)
  })

  /** A claim without an owner. Its annotation names a database with this name. */
  const claimOf = (name: string, namespace = 'n') => [{ name: 'claim', key: `${namespace}/${name}` }]
  const elsewhere = (one: ManagedDatabase): ManagedDatabase => ({
    ...one,
    metadata: { ...one.metadata, namespace: 'elsewhere' },
  })
  const identified = { state: 'settled', owner: { id } }
  const contested = { state: 'contested' }
  const [a, b] = [database('a', id, late), database('b', id, early)]
  const [withData, older] = [database('b', id, late, true), elsewhere(database('a', id, early, true))]

  test.each<[string, ManagedDatabase, ManagedDatabase[], ReturnType<typeof claimOf>, object]>([
    ['stays with its data, although a copy in another namespace has its status', a, [older], claimOf('a'), identified],
    ['stays if its status has data, although a copy in another namespace is older', withData, [older], [], identified],
    ['is new if an older database in another namespace has it', a, [older], [], { state: 'unsettled', id: undefined }],
    [
      'is contested by an older database in its namespace while the data belong to neither',
      a,
      [b],
      claimOf('a'),
      contested,
    ],
    ['is also contested for that older database', b, [a], claimOf('a'), contested],
    ['belongs to the older database if the data name neither', b, [a], claimOf('c'), identified],
    ['stays with the owner that the data name, if its status has the data', withData, [a], claimOf('b'), identified],
    ['is contested for a copy of that owner in its namespace', a, [withData], claimOf('b'), contested],
    [
      'is not contested because of data of that name in another namespace',
      a,
      [older],
      claimOf('a', 'elsewhere'),
      identified,
    ],
  ])('%s', (_, subject, others, orphanClaims, expected) => {
    expect(identityOf(subject, { childOwnerIds: [], others, orphanClaims })).toMatchObject(expected)
  })

  test('is never new if data without an existing owner have it, so that no empty volume is created', () => {
    const names = ['a', 'b', 'c']
    const one = fc.record({
      created: fc.constantFrom(early, late),
      hasVolume: fc.boolean(),
      isElsewhere: fc.boolean(),
    })
    fc.assert(
      fc.property(fc.array(one, { minLength: 1, maxLength: 3 }), fc.constantFrom(...names, 'd'), (all, named) => {
        const databases = all.map(({ created, hasVolume, isElsewhere }, index) => {
          const made = database(names[index] ?? '', id, created, hasVolume)
          return isElsewhere ? elsewhere(made) : made
        })
        const here = databases.filter(({ metadata }) => metadata.namespace === 'n')
        const found = here.map(subject =>
          identityOf(subject, {
            childOwnerIds: [],
            others: databases.filter(other => other !== subject),
            orphanClaims: claimOf(named),
          }),
        )
        expect(found.filter(({ state }) => state === 'unsettled')).toEqual([])
        expect(found.filter(({ state }) => state === 'settled').length).toBeLessThanOrEqual(1)
      }),
    )
  })

  test('of two with one id exactly one keeps it', () => {
    const all = [
      database('a', id, early),
      database('b', id, early),
      database('c', id, late, true),
      database('d', id, early, true),
    ]
    const keepers = all.filter(one => !all.some(another => another !== one && precedes(another, one)))
    expect(keepers.map(({ metadata }) => metadata.name)).toEqual(['d'])
  })
})
