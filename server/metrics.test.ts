import { Registry } from 'prom-client'
import { expect, test } from 'vitest'
import { addGauge, addScraped, metricsPage, processMetrics } from './metrics.ts'

test('a page contains the registries that exist when it is read; the process has one', async () => {
  const registries = [new Registry()]
  const page = metricsPage(() => registries)
  expect(await page.text()).not.toContain('nodejs_')
  registries.push(processMetrics())
  expect(processMetrics()).toBe(registries[1])
  expect(await page.text()).toContain('nodejs_eventloop_lag_p99_seconds')
})

test('values are read at every scrape, and deleted objects have no values', async () => {
  const registry = new Registry()
  let depth = 1
  let queues: { name: string; done: number | undefined }[] = [
    { name: 'a', done: 3 },
    { name: 'b', done: undefined },
  ]
  addGauge(registry, 'depth', 'Of a test.', () => depth)
  addScraped(registry, 'counter', {
    name: 'done_total',
    help: 'Of a test.',
    labelNames: ['queue'],
    read: () => queues,
    value: ({ name, done }) => [{ queue: name }, done],
  })
  const values = async () => (await registry.metrics()).split('\n').filter(line => /^[a-z]/.test(line))
  expect(await values()).toEqual(['depth 1', 'done_total{queue="a"} 3'])
  depth = 2
  queues = [{ name: 'b', done: 1 }]
  expect(await values()).toEqual(['depth 2', 'done_total{queue="b"} 1'])
})
