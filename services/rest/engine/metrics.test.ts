import { expect, test } from 'vitest'
import { createMetrics } from './metrics.ts'

test('reading counters repeatedly does not change them', async () => {
  const figures = { size: 10, open: 3, idle: 2, waiting: 1, timeouts: 4 }
  const { registry } = createMetrics(() => figures)
  const lines = async () => (await registry.metrics()).split('\n')
  expect(await lines()).toContain('rst_db_pool_timeouts_total 4')
  figures.timeouts = 5
  expect(await lines()).toContain('rst_db_pool_timeouts_total 5')
  const typeOf = Object.fromEntries(
    (await lines()).filter(line => line.startsWith('# TYPE ')).map(line => line.split(' ').slice(2)),
  )
  for (const [name, type] of Object.entries(typeOf))
    expect([name, type === 'counter']).toEqual([name, name.endsWith('_total')])
  expect(typeOf).toMatchObject({ rst_db_pool_timeouts_total: 'counter', rst_db_pool_open: 'gauge' })
})
