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
  }) as ManagedDatabase // the spec plays no part

const [early, late] = ['2026-01-01T00:00:00Z', '2026-02-01T00:00:00Z']

describe('the id of a database', () => {
  test.each<[string, ManagedDatabase, string[], ManagedDatabase[], object]>([
    ['is its label', database('a', id, early), [], [], { state: 'settled', owner: { id } }],
    ['is new where there is none', database('a', undefined, early), [], [], { state: 'unsettled', id: undefined }],
    ['is new where the label is no id', database('a', 'mine', early), [], [], { state: 'unsettled', id: undefined }],
    ["is its children's, without a label", database('a', undefined, early), [id], [], { state: 'unsettled', id }],
    ["is its children's, whatever the label", database('a', other, early), [id], [], { state: 'unsettled', id }],
    ['stays with the elder', database('a', id, early), [], [database('b', id, late)], { state: 'settled' }],
    [
      'is new for the younger',
      database('b', id, late),
      [],
      [database('a', id, early)],
      { state: 'unsettled', id: undefined },
    ],
    [
      'stays with who lived under it, if younger',
      database('b', id, late),
      [id],
      [database('a', id, early)],
      { state: 'settled' },
    ],
  ])('%s', (_, subject, children, others, expected) => {
    expect(identityOf(subject, children, others)).toMatchObject(expected)
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
