/** Metrics of processes that start and end. Gauges include running processes; counters include all processes. */
import { expect, test } from 'vitest'
import { aggregateText, type ProcessMetrics, retainCounters } from '../../process/metrics.ts'
import { createMetrics } from './metrics.ts'

async function metricsOf(requests: number): Promise<ProcessMetrics> {
  const metrics = createMetrics(() => ({ size: 5, open: 3, idle: 2, waiting: 0, timeouts: 0 }))
  for (let request = 0; request < requests; request++) metrics.request('GET', 200, 0.004)
  metrics.schemaCacheLoad(true, requests)
  // The form in which another process sends it.
  return JSON.parse(JSON.stringify(await metrics.registry.getMetricsAsJSON()))
}

test('the counters of an ended process are kept, and its connections are not', async () => {
  const [first, second, third] = [await metricsOf(3), await metricsOf(4), await metricsOf(5)]
  const before = await aggregateText([[], first, second, third])
  expect(before).toContain('rst_db_pool_max 15\n')
  expect(before).toContain('rst_requests_total{method="GET",status="200"} 12\n')
  const retained = await retainCounters(await retainCounters([], first), third)
  const after = await aggregateText([retained, second])
  expect(after).toContain('rst_db_pool_max 5\n')
  expect(after).toContain('rst_schema_cache_load_seconds 4\n')
  const isCount = (line: string) => /^rst_(requests|request_duration|schema_cache_loads)/.test(line)
  expect(after.split('\n').filter(isCount).sort()).toEqual(before.split('\n').filter(isCount).sort())
})

test('no process has reported yet', async () => {
  expect((await aggregateText([[]])).trim()).toBe('')
})
