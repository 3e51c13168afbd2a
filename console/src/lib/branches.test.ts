import { expect, test } from 'vitest'
import type { Schemas } from '../api/client.ts'
import { staleKeys } from '../api/events.ts'
import { namesOf } from './branches.ts'
import { rowsOf } from './rows.ts'
import { branchTabs, databaseTabs } from './tabs.ts'
import { keyOf } from './target.ts'

const branch = (id: string, label: string | null) => ({ id, name: `shop-${id.slice(-8)}`, display_name: label })

test('names show the end of the id for branches of one title, as generated names do', () => {
  // The beginning of an id is the time of its creation.
  const branches = [
    branch('01a22056-a817-7a15-b0d2-de8a143d8be5', 'Preview'),
    branch('01a22056-a92a-7971-a07c-9f9bcea7fc37', 'Preview'),
    branch('01a22056-a92a-7971-a07c-000000000001', 'Trial'),
    branch('01a22056-a92a-7971-a07c-000000000002', null),
  ]
  expect(branches.map(namesOf(branches))).toEqual([
    'Preview (143d8be5)',
    'Preview (cea7fc37)',
    'Trial',
    'shop-00000002',
  ])
})

test('the overview shows ids only of branches of one database with one title', () => {
  const database = { id: 'd', name: 'shop' } as Schemas['ManagedDatabase']
  const made = (id: string, label: string) => ({ ...branch(id, label), created_at: id }) as Schemas['Branch']
  const found = new Map([['d', [made('1-00000001', 'Preview'), made('2-00000002', 'Preview'), made('3', 'Trial')]]])
  const marks = rowsOf([database], found).map(row => (row.kind === 'branch' ? row.mark : row.kind))
  expect(marks).toEqual(['database', '00000001', '00000002', undefined])
})

test('what is kept of a branch is neither of its database nor of another branch', () => {
  const keys = [
    { id: 'd', branchId: undefined },
    { id: 'd', branchId: 'a' },
    { id: 'd', branchId: 'b' },
  ].map(keyOf)
  expect(new Set(keys).size).toBe(3)
})

test('a change of a branch refreshes the page of the branch', () => {
  const stale = staleKeys({ kind: 'branch', id: 'b', databaseId: 'd', status: 'deleting' })
  expect(stale).toContainEqual(['branches', 'd'])
})

test('a branch has only pages that databases have', () => {
  expect(branchTabs.filter(tab => !databaseTabs.includes(tab))).toEqual([])
})
