import { beforeEach, describe, expect, test } from 'vitest'
import { pauseMs } from './client.ts'
import { toSend } from './segments.ts'
import { ArchiveState } from './state.ts'
import { ArchiveFault } from './transport.ts'
import { bytesOfSetting, inOrderOfArchiving, lsnOf, segmentName, segmentStart } from './wal.ts'

const segment = 16n << 20n
const name = (number: bigint, timeline = 1) => segmentName(timeline, number * segment, segment)

let now: number
let clockError: number
let state: ArchiveState
const lines: string[] = []
beforeEach(() => {
  now = 1000
  clockError = 0
  lines.length = 0
  state = new ArchiveState(
    () => now + clockError,
    line => lines.push(line),
    () => now,
  )
})

describe('the archived position', () => {
  test('is unknown before anything is streamed', () => {
    state.waiting([name(3n)])
    expect(state.status()).toMatchObject({ archived: null, lagBytes: null, waitingFiles: 1, timeline: null })
  })

  test('covers everything streamed, from the beginning of the segment in which the stream began', () => {
    state.streaming(5n * segment + 100n, segment, 1)
    state.written(5n * segment + 900n)
    state.streamed(5n * segment + 400n)
    expect(state.status()).toMatchObject({
      archived: '0/5000190',
      written: '0/5000384',
      lagBytes: 500,
      archivedAt: null,
    })
    now = 2000
    state.streamed(5n * segment + 900n)
    expect(state.status()).toMatchObject({ lagBytes: 0, archivedAt: 2000 })
  })

  test('ends at the first segment that waits and was not streamed completely', () => {
    state.streaming(5n * segment, segment, 1)
    state.streamed(6n * segment)
    state.waiting([name(4n), name(3n), name(5n)])
    expect(state.status().archived).toBe(lsnOf(3n * segment))
    state.archivedFile(name(3n))
    expect(state.status().archived).toBe(lsnOf(4n * segment))
    now = 3000
    state.archivedFile(name(4n))
    expect(state.status()).toMatchObject({ archived: lsnOf(6n * segment), lastFile: name(4n), lastArchivedAt: 3000 })
  })

  test('starts again if a stream skips WAL, and not if the stream continues', () => {
    state.streaming(5n * segment, segment, 1)
    state.streamed(5n * segment + 10n)
    state.streaming(5n * segment + 10n, segment, 1)
    state.waiting([name(5n)])
    expect(state.status().archived).toBe(lsnOf(5n * segment + 10n))
    state.streaming(9n * segment, segment, 1)
    expect(state.status().archived).toBe(lsnOf(5n * segment))
  })
})

describe('the archiving state', () => {
  test('is failing from the third failed attempt until an attempt succeeds', () => {
    const fail = () => state.failed('tail', new Error('away'))
    fail()
    fail()
    expect(state.status()).toMatchObject({ state: 'archiving', since: 1000 })
    now = 4000
    fail()
    expect(state.status()).toMatchObject({ state: 'failing', since: 4000, error: { message: 'away' } })
    state.succeeded('segments')
    expect(state.status().state).toBe('failing')
    now = 5000
    state.succeeded('tail')
    expect(state.status()).toMatchObject({ state: 'archiving', since: 5000, error: null })
    expect(lines).toHaveLength(3)
  })

  test('is conflict after the first conflict, even with other failures', () => {
    for (let count = 0; count < 3; count++) state.failed('tail', new Error('away'))
    state.failed('segments', new ArchiveFault('conflict', 'other content'))
    expect(state.status()).toMatchObject({ state: 'conflict', error: { code: 'conflict' } })
  })
})

test('an archive that does not answer is reported at the second attempt, if 15 seconds have passed', () => {
  state.failed('segments', new ArchiveFault('timeout', 'the archive does not answer'))
  now += 15_000
  expect(state.status().state).toBe('archiving')
  state.failed('segments', new ArchiveFault('timeout', 'the archive does not answer'))
  expect(state.status()).toMatchObject({ state: 'failing', since: now, error: { code: 'timeout' } })
})

test('setting the clock by an hour moves all reported times, and changes no duration', () => {
  state.streaming(5n * segment, segment, 1)
  state.written(5n * segment + 10n)
  state.streamed(5n * segment + 10n)
  state.waiting([name(5n)])
  now += 10_000
  for (const error of [3600_000, -3600_000]) {
    clockError = error
    const { now: at, startedAt, archivedAt, oldestWaitingSince, since } = state.status()
    expect(at).toBe(now + error)
    for (const time of [startedAt, archivedAt, oldestWaitingSince, since]) expect(at - (time ?? 0)).toBe(10_000)
  }
})

test('files are sorted in the order in which Postgres archives them', () => {
  const files = [name(2n, 2), name(1n), '00000002.history', `${name(1n)}.partial`]
  expect(inOrderOfArchiving(files)).toEqual(['00000002.history', name(1n), `${name(1n)}.partial`, name(2n, 2)])
})

test.each([
  [1, 0n, '000000010000000000000000'],
  [2, (256n + 3n) * segment + 5n, '000000020000000100000003'],
])('the segment of timeline %i at %i is %s', (timeline, at, expected) => {
  expect(segmentName(timeline, at, segment)).toBe(expected)
  expect(segmentStart(expected, segment)).toBe(at - (at % segment))
})

test('delays double, are random, and are at most ten seconds', () => {
  expect([1, 2, 3, 30].map(attempt => pauseMs(attempt, () => 1))).toEqual([100, 200, 400, 10_000])
  expect(pauseMs(3, () => 0)).toBe(200)
})

test('a Postgres setting is parsed as bytes', () => {
  expect(['16MB', '1GB'].map(bytesOfSetting)).toEqual([16n << 20n, 1n << 30n])
  expect(() => bytesOfSetting('16')).toThrow('wal_segment_size')
})

test('files are sent one by one until the archive has accepted a file, and after it has refused a file', () => {
  const names = Array.from({ length: 20 }, (_, index) => name(BigInt(index + 1)))
  expect(toSend(names, state)).toEqual(names.slice(0, 1))
  state.archivedFile(name(1n))
  expect(toSend(names, state)).toEqual(names.slice(0, 16))
  state.failed('segments', new Error('away'))
  expect(toSend(names, state)).toHaveLength(16)
  state.failed('segments', new ArchiveFault('conflict', 'other content'))
  expect(toSend(names, state)).toEqual(names.slice(0, 1))
})
