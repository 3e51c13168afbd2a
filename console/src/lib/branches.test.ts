import { expect, test } from 'vitest'
import type { Schemas } from '../api/client.ts'
import { staleKeys } from '../api/events.ts'
import { namesOf } from './branches.ts'
import { rowsOf } from './rows.ts'
import { branchTabs, databaseTabs } from './tabs.ts'
import { keyOf } from './target.ts'

const branch = (id: string, label: string | null) => ({ id, name: `shop-${id.slice(-8)}`, display_name: label })

test('names of branches with the same title contain the short id', () => {
  // An id begins with the time of its creation, so two ids can have the same beginning.
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

test('the overview shows a short id only if two branches of a database have the same title', () => {
  const database = { id: 'd', name: 'shop' } as Schemas['ManagedDatabase']
  const listed = (id: string, label: string) => ({ ...branch(id, label), created_at: id }) as Schemas['Branch']
  const branches = new Map([
    ['d', [listed('1-00000001', 'Preview'), listed('2-00000002', 'Preview'), listed('3', 'Trial')]],
  ])
  const shortIds = rowsOf([database], branches).map(row => (row.kind === 'branch' ? row.mark : row.kind))
  expect(shortIds).toEqual(['database', '00000001', '00000002', undefined])
})

test('a database and each of its branches have different keys', () => {
  const keys = [
    { id: 'd', branchId: undefined },
    { id: 'd', branchId: 'a' },
    { id: 'd', branchId: 'b' },
  ].map(keyOf)
  expect(new Set(keys).size).toBe(3)
})

test('an event of a branch makes the queries of the branch stale', () => {
  const stale = staleKeys({ kind: 'branch', id: 'b', databaseId: 'd', status: 'deleting' })
  expect(stale).toContainEqual(['branches', 'd'])
})

test('every tab of a branch is also a tab of a database', () => {
  expect(branchTabs.filter(tab => !databaseTabs.includes(tab))).toEqual([])
})
