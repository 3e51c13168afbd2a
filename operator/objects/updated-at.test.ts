import fc from 'fast-check'
import { expect, test } from 'vitest'
import { withUpdatedAt } from './updated-at.ts'

const now = Date.UTC(2026, 0, 31, 12, 0, 5, 678)
const seen = {
  phase: 'available',
  appliedHash: 'a',
  connectableAt: '2026-01-31T11:00:00Z',
  endpoint: { host: 'h', port: 1 },
  domain: 'd',
  services: [{ serviceId: 's', state: 'pending' }],
  size: { name: 'small', version: 1 },
  storage: { capacity: '1Gi' },
  storageUsedBytes: 4096,
  branchCount: 0,
  source: { lsn: '0/1' },
}
const others = {
  phase: 'degraded',
  appliedHash: 'b',
  connectableAt: '2026-01-31T11:00:01Z',
  endpoint: { host: 'h', port: 2 },
  domain: 'e',
  services: [{ serviceId: 's', state: 'running' }],
  size: { name: 'small', version: 2 },
  storage: { capacity: '2Gi' },
  storageUsedBytes: 8192,
  branchCount: 1,
  source: { lsn: '0/2' },
} satisfies Record<keyof typeof seen, unknown>

test('updatedAt changes with each field that users see, added or removed', () => {
  const names = fc.constantFrom(...(Object.keys(seen) as (keyof typeof seen)[]))
  fc.assert(
    fc.property(names, fc.boolean(), (name, isRemoved) => {
      const { [name]: _, ...without } = seen
      const after = isRemoved ? without : { ...seen, [name]: others[name] }
      const moved = { ...after, updatedAt: '2026-01-31T12:00:05.678Z' }
      expect(withUpdatedAt({ ...seen, updatedAt: '2026-01-01T00:00:00.000Z' }, after, now)).toEqual(moved)
      expect(withUpdatedAt(after, { ...seen }, now)).toMatchObject({ updatedAt: moved.updatedAt })
    }),
  )
})

test('updatedAt does not change otherwise, and older objects get none', () => {
  const unseen = {
    conditions: [],
    observedGeneration: 2,
    pendingRestart: [],
    storage: { capacity: '1Gi', growsTo: '2Gi' },
  }
  const updatedAt = '2026-01-01T00:00:00.000Z'
  expect(withUpdatedAt({ ...seen, updatedAt }, { ...seen, ...unseen }, now)).toEqual({ ...seen, ...unseen, updatedAt })
  expect(withUpdatedAt(seen, { ...seen, ...unseen }, now)).not.toHaveProperty('updatedAt')
  expect(withUpdatedAt(undefined, {}, now)).toEqual({})
})
