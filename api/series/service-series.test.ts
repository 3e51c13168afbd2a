import { expect, test } from 'vitest'
import { durationName } from '../../server/samples.ts'
import { type SampledProcess, serviceSeriesOf } from './service-series.ts'

const start = Date.parse('2026-01-01T12:00:00Z')
const window = { startMs: start, endMs: start + 600_000, intervalMs: 60_000 }
const timeOf = (minutes: number) => `2026-01-01T12:0${minutes}:00Z`

/** A process with a sample every 30 s from minute one on. Rows have the increase of counters per sample. */
function processOf(pod: string, from: number, rows: readonly Record<string, number>[]): SampledProcess {
  return {
    pod,
    samples: rows.map((values, index) => ({ at: start + from * 60_000 + index * 30_000, values })),
  }
}
const valuesOf = (name: string, processes: SampledProcess[], type: 'mcp' | 'rest' | 'rag' = 'rest') =>
  serviceSeriesOf(type, processes, window).find(series => series.name === name)?.values

const counted = (ok: number, failed = 0) => ({
  ...{ requests_2xx: ok, requests_3xx: 0, requests_4xx: 0, requests_5xx: failed },
  ...{ in_progress: 2, memory_bytes: 100 },
})

test('adds the requests of two pods, by class and in total', () => {
  const one = processOf('a', 0, [counted(0), counted(30), counted(60), counted(90, 30)])
  const two = processOf('b', 0, [counted(1000), counted(1060), counted(1120), counted(1180)])
  expect(valuesOf('requests', [one, two])).toEqual([
    [timeOf(0), 3, 3, 0, 0, 0, 0, 4],
    [timeOf(1), 3.5, 3, 0, 0, 0.5, 30 / 210, 4],
  ])
  expect(valuesOf('memory', [one, two])).toEqual([
    [timeOf(0), 200],
    [timeOf(1), 200],
  ])
  expect(valuesOf('pods', [one, two])?.map(([, pods]) => pods)).toEqual([2, 2])
})

test('a replaced pod causes a gap, but no negative rate', () => {
  const first = processOf('a', 0, [counted(900), counted(930), counted(960)])
  const later = processOf('b', 4, [counted(0), counted(60)])
  const rows = valuesOf('requests', [first, later])
  expect(rows?.map(([time, rate]) => [time, rate])).toEqual([
    [timeOf(0), 1],
    [timeOf(1), 1],
    [timeOf(4), 2],
  ])
  // A counter that restarts at zero in a process has grown by its value.
  const again = valuesOf('requests', [processOf('a', 0, [counted(900), counted(15)])])
  expect(again?.map(([, rate]) => rate)).toEqual([0.5])
})

test('quantiles of durations are within their bucket, over all pods', () => {
  const durations = (...counts: [index: number, count: number][]) =>
    Object.fromEntries([...Array(16).keys()].map(index => [durationName(index), new Map(counts).get(index) ?? 0]))
  const one = processOf('a', 0, [durations(), durations([4, 50])])
  const two = processOf('b', 0, [durations([7, 1]), durations([7, 1], [4, 40], [9, 10])])
  // 90 requests take 10 to 25 ms, and 10 requests take 0.5 to 1 s.
  const [row] = valuesOf('duration', [one, two]) ?? []
  expect(row?.[1]).toBeCloseTo(0.01 + (0.015 * 50) / 90, 6)
  expect(row?.[2]).toBeCloseTo(0.75, 6)
  expect(valuesOf('duration', [processOf('a', 0, [durations(), durations([15, 3])])])).toEqual([[timeOf(0), 60, 60]])
  expect(valuesOf('duration', [processOf('a', 0, [durations([3, 5]), durations([3, 5])])])).toEqual([])
})

test('each service has its own series, and both servers of mcp count as one pod', () => {
  const tools = processOf('a', 0, [
    { sessions: 0, tool_calls: 0 },
    { sessions: 0, tool_calls: 60 },
  ])
  const bridge = processOf('a', 0, [
    { sessions: 3, tool_calls: 0 },
    { sessions: 5, tool_calls: 30 },
  ])
  expect(valuesOf('sessions', [tools, bridge], 'mcp')).toEqual([[timeOf(0), 4]])
  expect(valuesOf('tools', [tools, bridge], 'mcp')).toEqual([[timeOf(0), 3, null]])
  expect(valuesOf('pods', [tools, bridge], 'mcp')).toEqual([[timeOf(0), 1]])
  const names = (type: 'mcp' | 'rest' | 'rag') => serviceSeriesOf(type, [], window).map(({ name }) => name)
  const common = ['requests', 'duration', 'memory', 'cpu', 'pods']
  expect(names('mcp')).toEqual([...common, 'sessions', 'tools'])
  expect(names('rest')).toEqual([...common, 'pool'])
  expect(names('rag')).toEqual([...common, 'tokens', 'providers', 'pool'])
})
