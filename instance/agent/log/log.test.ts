/** How the agent limits, reads and forwards Postgres's log. These tests write the log themselves. */
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { boundOf, surplusOf } from './bound.ts'
import { openLogDirectory } from './directory.ts'
import { createForwarder } from './forward.ts'
import { keepLog } from './keep.ts'
import { readLog } from './read.ts'

const MiB = 2 ** 20
const owner = '00000000-0000-4000-8000-000000000001'
const begin = Date.parse('2026-01-02T00:00:00Z')
const stamp = (second: number) => new Date(begin + second * 1000).toISOString()
const nameOf = (second: number, kind = 'json') =>
  `postgres-${stamp(second).slice(0, 19).replaceAll(/[-:]/g, '')}.${kind}`
const line = (second: number, more: object = {}) =>
  `${JSON.stringify({
    timestamp: stamp(second).replace('T', ' ').replace('Z', ' UTC'),
    error_severity: 'LOG',
    message: `entry ${second}`,
    ...more,
  })}\n`
const lines = (from: number, count: number) => Array.from({ length: count }, (_, index) => line(from + index)).join('')
const numbers = (from: number, count: number) => Array.from({ length: count }, (_, index) => `entry ${from + index}`)

let root: string
let path: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'espalier-log-'))
  path = join(root, 'log')
  mkdirSync(path)
  writeFileSync(join(path, 'owner'), owner)
  onTestFinished(() => rmSync(root, { recursive: true, force: true }))
})
const write = (name: string, text: string) => writeFileSync(join(path, name), text)

describe('a read of the log', () => {
  const all = { sinceMs: Number.NEGATIVE_INFINITY, untilMs: Number.POSITIVE_INFINITY, most: 1000 }
  const read = async (query: Partial<typeof all> = {}, limits?: Parameters<typeof readLog>[3]) => {
    const { entries, isWhole } = await readLog(path, owner, { ...all, ...query }, limits)
    return { messages: entries.map(({ message }) => message), isWhole }
  }

  test('returns the newest entries of all files first', async () => {
    write(nameOf(0), lines(0, 3))
    write(nameOf(10), lines(10, 3))
    write(nameOf(10, 'log'), 'printed past the log\n')
    const messages = [...numbers(0, 3), ...numbers(10, 3)].reverse()
    expect(await read()).toEqual({ messages, isWhole: true })
    expect(await read({ most: 4 })).toEqual({ messages: messages.slice(0, 4), isWhole: false })
  })

  test('returns the entries of a window, including its beginning and excluding its end', async () => {
    for (const from of [0, 100, 200]) write(nameOf(from), lines(from, 100))
    const [sinceMs, untilMs] = [begin + 98_000, begin + 102_000]
    expect(await read({ sinceMs, untilMs })).toEqual({ messages: numbers(98, 4).reverse(), isWhole: true })
    expect(await read({ sinceMs: begin + 1e9 })).toEqual({ messages: [], isWhole: true })
    expect(await read({ untilMs: begin })).toEqual({ messages: [], isWhole: true })
  })

  test('sorts entries by time, because processes write them out of order', async () => {
    write(nameOf(0), line(1) + line(3) + line(2))
    expect((await read()).messages).toEqual(numbers(1, 3).reverse())
  })

  test('skips files outside the window', async () => {
    for (let from = 0; from < 40; from++) write(nameOf(from * 100), lines(from * 100, 100))
    const limits = { readBytes: 40_000, answerBytes: MiB, ms: 60_000 }
    const window = { sinceMs: begin + 500_000, untilMs: begin + 501_000 }
    expect(await read(window, limits)).toEqual({ messages: numbers(500, 1), isWhole: true })
  })

  test('is limited by bytes read, response size and time', async () => {
    write(nameOf(0), lines(0, 20_000))
    const limits = { readBytes: Number.POSITIVE_INFINITY, answerBytes: Number.POSITIVE_INFINITY, ms: 60_000 }
    for (const less of [{ readBytes: 100_000 }, { answerBytes: 10_000 }, { ms: 0 }]) {
      const { messages, isWhole } = await read({ most: 100_000 }, { ...limits, ...less })
      expect(isWhole).toBe(false)
      expect(messages.length).toBeLessThan(10_000)
      expect(messages).toEqual(numbers(20_000 - messages.length, messages.length).reverse())
    }
  })

  test('returns a short entry for a very long line', async () => {
    write(nameOf(0), line(0) + line(1, { user: 'app', statement: 'x'.repeat(5 * MiB) }) + line(2))
    const { entries } = await readLog(path, owner, all)
    expect(entries).toMatchObject([
      { message: 'entry 2' },
      { message: expect.stringMatching(/entry 1|too long/), user: 'app' },
      { message: 'entry 0' },
    ])
    expect(JSON.stringify(entries).length).toBeLessThan(1000)
  })

  test('returns the lines that can be parsed, also next to truncated or split lines, or lines that are not JSON', async () => {
    const complete = lines(0, 400)
    await fc.assert(
      fc.asyncProperty(fc.nat(complete.length), fc.uint8Array({ maxLength: 50 }), async (at, garbage) => {
        write(nameOf(0), '')
        for (const part of [complete.slice(0, at), Buffer.from(garbage), '\n', complete.slice(at)])
          appendFileSync(join(path, nameOf(0)), part)
        const { messages } = await read()
        expect(messages.length).toBeGreaterThanOrEqual(398)
        expect(messages).toEqual(messages.toSorted((a, b) => Number(b.slice(6)) - Number(a.slice(6))))
      }),
      { numRuns: 30 },
    )
  })

  test('returns nothing for another owner, through a link, or without a directory', async () => {
    write(nameOf(0), lines(0, 3))
    expect((await readLog(path, 'another', all)).entries).toEqual([])
    symlinkSync(join(path, nameOf(0)), join(path, nameOf(5)))
    expect((await read()).messages).toHaveLength(3)
    mkdirSync(join(path, nameOf(6)))
    expect((await read()).messages).toHaveLength(3)
    const [linked, none] = [join(root, 'linked'), join(root, 'none')]
    symlinkSync(path, linked)
    expect((await readLog(linked, owner, all)).entries).toEqual([])
    expect((await readLog(none, owner, all)).entries).toEqual([])
  })

  test('omits possible passwords', async () => {
    write(nameOf(0), line(0, { statement: "ALTER ROLE x PASSWORD 'hunter2'" }))
    expect(JSON.stringify(await readLog(path, owner, all))).not.toContain('hunter2')
  })
})

describe('the size limit', () => {
  test.each([
    ['2 % of the volume', 10_000, 9_000, 200],
    ['at least 16 MiB', 100, 90, 16],
    ['at most 256 MiB', 1_000_000, 900_000, 256],
    ['8 MiB if the volume is nearly full', 10_000, 199, 8],
  ])('is %s', (_, size, free, bound) => {
    expect(boundOf({ size: size * MiB, free: free * MiB })).toBe(bound * MiB)
  })

  const file = (second: number, bytes: number, kind: 'json' | 'log' = 'json') => ({
    ...{ name: nameOf(second, kind), kind, begunAt: begin + second * 1000, bytes },
  })
  test('deletes empty files and the oldest files', () => {
    const files = [file(0, 40), file(0, 10, 'log'), file(1, 40), file(2, 0), file(3, 40)]
    const names = (...seconds: number[]) => seconds.map(second => nameOf(second))
    expect(surplusOf(files, 130)).toEqual({ remove: names(2), empty: [] })
    expect(surplusOf(files, 129)).toEqual({ remove: names(0, 2), empty: [] })
    expect(surplusOf(files, 50)).toEqual({ remove: names(0, 1, 2), empty: [] })
    expect(surplusOf(files, 49)).toEqual({ remove: names(0, 1, 2), empty: names(3) })
    expect(surplusOf(files, 5)).toEqual({ remove: names(0, 1, 2), empty: [nameOf(3), nameOf(0, 'log')] })
    expect(surplusOf([], 0)).toEqual({ remove: [], empty: [] })
  })

  test('holds for any files, and never deletes a file in use', () => {
    const some = fc.array(fc.tuple(fc.nat(900), fc.nat(50), fc.constantFrom('json' as const, 'log' as const)))
    fc.assert(
      fc.property(some, fc.nat(500), (made, bound) => {
        const files = made
          .map(([second, bytes, kind]) => file(second, bytes, kind))
          .sort((a, b) => a.begunAt - b.begunAt)
        const { remove, empty } = surplusOf(files, bound)
        const remaining = files.filter(({ name }) => !remove.includes(name))
        const bytes = remaining.filter(({ name }) => !empty.includes(name)).reduce((sum, each) => sum + each.bytes, 0)
        expect(bytes).toBeLessThanOrEqual(bound)
        for (const kind of ['json', 'log'] as const)
          expect(remaining.findLast(each => each.kind === kind)?.name).toBe(
            files.findLast(each => each.kind === kind)?.name,
          )
      }),
    )
  })
})

describe('the forwarded log', () => {
  let logged: string[]
  let forwarder: ReturnType<typeof createForwarder>
  const state = () => join(root, 'position')
  const start = () => {
    forwarder = createForwarder(state(), text => logged.push(text))
  }
  /** Forwards all existing entries. */
  const pass = () => {
    logged = []
    for (let isMore = true; isMore; ) {
      const directory = openLogDirectory(path, owner)
      isMore = directory !== undefined && forwarder.pass(directory)
      directory?.close()
    }
    return logged.join('').split('\n').slice(0, -1)
  }
  const messages = (printed: string[]) => printed.map(text => (text.startsWith('{') ? JSON.parse(text).message : text))
  beforeEach(start)

  test('contains each entry once, across files and restarts', () => {
    write(nameOf(0), lines(0, 3))
    expect(messages(pass())).toEqual(numbers(0, 3))
    expect(pass()).toEqual([])
    appendFileSync(join(path, nameOf(0)), lines(3, 2) + line(5).slice(0, 20))
    expect(messages(pass())).toEqual(numbers(3, 2))
    appendFileSync(join(path, nameOf(0)), line(5).slice(20))
    write(nameOf(10), lines(10, 1))
    start()
    expect(messages(pass())).toEqual([...numbers(5, 1), ...numbers(10, 1)])
  })

  test('starts with the newest file if no position is stored', () => {
    write(nameOf(0), lines(0, 3))
    write(nameOf(10), lines(10, 2))
    expect(messages(pass())).toEqual(numbers(10, 2))
  })

  test('contains no possible passwords', () => {
    write(nameOf(0), line(0, { statement: "ALTER ROLE x PASSWORD 'hunter2'" }))
    expect(pass().join()).toMatch(/ALTER ROLE x \(the rest is left out/)
  })

  test('contains the newest entries of a flood, with the number of omitted bytes', () => {
    write(nameOf(0), lines(0, 3))
    pass()
    const flood = lines(100, 20_000)
    appendFileSync(join(path, nameOf(0)), flood)
    const [first = '', ...rest] = pass()
    const passed = rest.length
    expect(messages(rest)).toEqual(numbers(20_100 - passed, passed))
    expect(passed).toBeGreaterThan(500)
    const remaining = flood.length - lines(20_100 - passed, passed).length
    expect(first).toBe(`(${remaining} bytes of the log are omitted here: more than 256 KiB of the log were unread)`)
  })

  test('continues after a line that is too long, a truncated line, and a file that was truncated or removed', () => {
    write(nameOf(0), line(0, { statement: 'x'.repeat(100_000) }) + line(1))
    const [remaining, ...rest] = pass()
    expect(remaining).toMatch(/bytes of the log are omitted here: a line is incomplete or longer than 64 KiB/)
    expect(messages(rest)).toEqual(numbers(1, 1))
    appendFileSync(join(path, nameOf(0)), line(2).slice(0, 20))
    write(nameOf(10), line(10))
    expect(messages(pass()).at(-1)).toBe('entry 10')
    truncateSync(join(path, nameOf(10)))
    appendFileSync(join(path, nameOf(10)), line(11).replace('entry', 'x'))
    expect(messages(pass())).toEqual(['x 11'])
    rmSync(join(path, nameOf(10)))
    write(nameOf(20), line(20))
    expect(messages(pass())).toEqual(numbers(20, 1))
  })
})

describe('the log keeper', () => {
  const keep = (options: Partial<Parameters<typeof keepLog>[0]> = {}) => {
    const logged: string[] = []
    const stop = keepLog({
      ...{
        path,
        owner,
        forwarder: undefined,
        mayWrite: () => true,
        log: (text: string) => logged.push(text),
        pauseMs: 5,
      },
      spaceOf: () => ({ size: 100 * MiB, free: 90 * MiB }),
      ...options,
    })
    onTestFinished(stop)
    return logged
  }
  const bytes = () => readdirSync(path).reduce((sum, name) => sum + statSync(join(path, name)).size, 0)

  test('limits existing and new log files, and changes no other file', async () => {
    for (let index = 0; index < 6; index++) write(nameOf(index), 'x'.repeat(4 * MiB))
    write('other', 'x'.repeat(MiB))
    symlinkSync(join(path, 'other'), join(path, nameOf(0, 'log')))
    const logged = keep()
    await expect.poll(() => existsSync(join(path, nameOf(1)))).toBe(false)
    expect(readdirSync(path).sort()).toEqual(
      ['other', 'owner', nameOf(0, 'log'), ...[2, 3, 4, 5].map(index => nameOf(index))].sort(),
    )
    write(nameOf(6), 'x'.repeat(4 * MiB))
    await expect.poll(() => existsSync(join(path, nameOf(2)))).toBe(false)
    expect(logged).toEqual([])
  })

  test('truncates a file that Postgres could not rotate', async () => {
    write(nameOf(0), 'x'.repeat(17 * MiB))
    keep()
    await expect.poll(bytes).toBeLessThan(MiB)
  })

  test('waits while writing to the volume is not allowed', async () => {
    for (let index = 0; index < 6; index++) write(nameOf(index), 'x'.repeat(4 * MiB))
    /** Whether the oldest file exists, at each check while writing is not allowed. */
    const seen: boolean[] = []
    keep({
      mayWrite: () => {
        if (seen.length === 3) return true
        seen.push(existsSync(join(path, nameOf(0))))
        return false
      },
    })
    await expect.poll(() => existsSync(join(path, nameOf(0)))).toBe(false)
    expect(seen).toEqual([true, true, true])
  })

  test('does nothing while Postgres writes nothing, and reports a missing directory', async () => {
    let reads = 0
    const pass = () => {
      reads += 1
      return false
    }
    keep({ forwarder: { pass }, pauseMs: 50 })
    await expect.poll(() => reads).toBe(1)
    write(nameOf(0), line(0))
    await expect.poll(() => reads).toBe(2)
    await new Promise(resolve => setTimeout(resolve, 100))
    expect(reads).toBe(2)
    expect(keep({ path: join(root, 'none') })[0]).toMatch(/^cannot watch the log: .*ENOENT/)
  })
})
