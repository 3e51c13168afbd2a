/**
 * Reads samples from a Prometheus that collects the metrics of all databases. Sends one range query for all metrics of
 * one database, by its id (Prometheus, "HTTP API", range queries). If two targets of Prometheus have a value for the
 * same time, uses the larger value.
 */
import { z } from 'zod'
import { sampleEveryMs } from '../../instance/agent/contract.ts'
import { idLabel, type Measure, measureNames, metricName, type Sample } from '../../instance/agent/measures.ts'
import { getJson } from '../json-request.ts'
import type { SampleSource } from './source.ts'

const timeoutMs = 15_000
const mostBytes = 16 * 1024 * 1024

const point = z.tuple([z.number(), z.string()])
const answer = z.object({
  status: z.literal('success'),
  data: z.object({
    resultType: z.literal('matrix'),
    result: z.array(z.object({ metric: z.record(z.string(), z.string()), values: z.array(point) })),
  }),
})

const measureOf = new Map<string, Measure>(measureNames.map(measure => [metricName(measure), measure]))
const unknown = Object.fromEntries(measureNames.map(measure => [measure, null])) as Sample['values']

/** `id` is a UUID, which needs no escape. */
const queryOf = (id: string): string => `max by (__name__) ({__name__=~"espalier_postgres_.+",${idLabel}="${id}"})`

export function createPrometheusSource(url: string): SampleSource {
  const { protocol, hostname, port, pathname } = new URL(url)
  const read: SampleSource['read'] = async ({ id }, { startMs, endMs, intervalMs }) => {
    const step = Math.max(intervalMs, sampleEveryMs)
    // Times are aligned, so that a repeated query uses the same times. One more step is the base of the first rate.
    const first = Math.floor(startMs / step) * step - step
    const parameters = new URLSearchParams({
      query: queryOf(id),
      start: String(first / 1000),
      end: String(endMs / 1000),
      step: String(step / 1000),
      timeout: `${timeoutMs / 1000}s`,
    })
    const found = await getJson({
      ...{ secure: protocol === 'https:', host: hostname, mostBytes, timeoutMs },
      ...(port === '' ? {} : { port: Number(port) }),
      path: `${pathname.replace(/\/$/, '')}/api/v1/query_range?${parameters}`,
    })
    const samples = new Map<number, Sample>()
    for (const { metric, values } of answer.parse(found).data.result) {
      const measure = measureOf.get(metric.__name__ ?? '')
      if (measure === undefined) continue
      for (const [seconds, text] of values) {
        const at = Math.round(seconds * 1000)
        const sample = samples.get(at) ?? { at, values: { ...unknown } }
        samples.set(at, sample)
        const value = Number(text)
        sample.values[measure] = Number.isFinite(value) ? value : null
      }
    }
    return [...samples.values()]
  }
  return { isAgent: false, read }
}
