import { describe, expect, test } from 'vitest'
import { apiVersion, type Task } from '../../crds/index.ts'
import { isOutdated, surplusOf } from './retention.ts'

const day = 24 * 3600_000
const start = Date.parse('2026-01-01T00:00:00Z')

const task = (name: string, status?: Task['status']): Task => ({
  apiVersion,
  kind: 'Task',
  metadata: { name, namespace: 'n', creationTimestamp: new Date(start).toISOString() },
  spec: { name: 'update-managed', subject: { kind: 'database', id: 'i', name: 'one' } },
  ...(status && { status }),
})
const ended = (name: string, afterMs: number, phase: 'succeeded' | 'failed' = 'succeeded') =>
  task(name, { phase, finishedAt: new Date(start + afterMs).toISOString() })

describe('how long Tasks are kept', () => {
  test('30 days from their end, or from their creation if no end is recorded; open Tasks always', () => {
    expect(isOutdated(ended('one', day), start + 31 * day - 1)).toBe(false)
    expect(isOutdated(ended('one', day), start + 31 * day)).toBe(true)
    expect(isOutdated(ended('one', day, 'failed'), start + 31 * day)).toBe(true)
    expect(isOutdated(task('one', { phase: 'failed' }), start + 30 * day)).toBe(true)
    expect(isOutdated(task('one', { phase: 'running' }), start + 300 * day)).toBe(false)
    expect(isOutdated(task('one'), start + 300 * day)).toBe(false)
  })

  test('the newest 100 of a subject, by end and then by name; open Tasks do not count', () => {
    const many = Array.from({ length: 103 }, (_, index) => ended(`t${String(index).padStart(3, '0')}`, index * 1000))
    const open = Array.from({ length: 50 }, (_, index) => task(`o${index}`))
    const names = (tasks: Task[]) => surplusOf(tasks).map(({ metadata }) => metadata.name)
    expect(names([...open, ...many.slice(0, 100)])).toEqual([])
    expect(names([...open, ...many.toReversed()])).toEqual(['t000', 't001', 't002'])
    const together = many.map(({ metadata }) => ended(metadata.name, 0))
    expect(names(together.toReversed())).toEqual(['t000', 't001', 't002'])
  })
})
