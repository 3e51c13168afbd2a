import { rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { temporaryDirectory } from '../testing/runtime.ts'
import { readContainerLog } from './read.ts'
import { defaultLogLimits, logFile, openContainerLog } from './write.ts'

const text = (line: string): string => line.slice(line.indexOf(' ') + 1)

describe('a container log', () => {
  test('keeps lines with times, across chunks, streams and reopening', async () => {
    const directory = temporaryDirectory()
    const log = openContainerLog(directory, 'main', defaultLogLimits, () => Date.parse('2026-01-02T03:04:05.006Z'))
    const [out, err] = [log.stream(), log.stream()]
    out.push(Buffer.from('one\ntw'))
    err.push(Buffer.from('error\n'))
    out.push(Buffer.from('o\nunfinished'))
    out.end()
    log.close()
    const again = openContainerLog(directory, 'main')
    again.stream().push(Buffer.from('after\n'))
    again.close()
    const lines = await readContainerLog(directory, 'main')
    expect(lines.map(text)).toEqual(['one', 'error', 'two', 'unfinished', 'after'])
    expect(lines[0]).toBe('2026-01-02T03:04:05.006Z one')
    expect(statSync(logFile(directory, 'main')).mode & 0o777).toBe(0o600)
  })

  test('returns the newest lines, and those since a time', async () => {
    const directory = temporaryDirectory()
    let time = Date.parse('2026-01-01T00:00:00.000Z')
    const log = openContainerLog(directory, 'main', defaultLogLimits, () => time)
    const out = log.stream()
    for (let index = 0; index < 5000; index += 1) {
      time += 1000
      out.push(Buffer.from(`line ${index} ${'ä'.repeat(index % 90)}\n`))
    }
    const newest = await readContainerLog(directory, 'main', { tailLines: 3 })
    expect(newest.map(line => text(line).split(' ')[1])).toEqual(['4997', '4998', '4999'])
    const since = await readContainerLog(directory, 'main', { sinceTime: new Date(time - 9000).toISOString() })
    expect(since).toHaveLength(10)
    expect(await readContainerLog(directory, 'main', { tailLines: 0 })).toEqual([])
    expect(await readContainerLog(directory, 'main')).toHaveLength(5000)
    expect(await readContainerLog(directory, 'other')).toEqual([])
  })

  test('rotates at its size limit, reads across the files, and stays bounded', async () => {
    const directory = temporaryDirectory()
    const limits = { fileBytes: 2000, files: 3, lineBytes: 500, bytesPerSecond: 1e9 }
    let time = 0
    const log = openContainerLog(directory, 'main', limits, () => (time += 1000))
    const out = log.stream()
    for (let index = 0; index < 500; index += 1) out.push(Buffer.from(`line ${index}\n`))
    const all = await readContainerLog(directory, 'main')
    expect(text(all.at(-1) ?? '')).toBe('line 499')
    expect(all.map(line => Number(text(line).split(' ')[1]))).toEqual(
      Array.from({ length: all.length }, (_, index) => 500 - all.length + index),
    )
    for (const suffix of ['', '.1', '.2']) expect(statSync(logFile(directory, 'main') + suffix).size).toBeLessThan(2001)
    expect(() => statSync(`${logFile(directory, 'main')}.3`)).toThrow('ENOENT')
    log.close()
  })

  test('a flood is dropped and counted, a long line is split', async () => {
    const directory = temporaryDirectory()
    let time = 0
    const limits = { fileBytes: 10_000, files: 2, lineBytes: 100, bytesPerSecond: 1000 }
    const log = openContainerLog(directory, 'main', limits, () => time)
    const out = log.stream()
    out.push(Buffer.from(`${'x'.repeat(250)}\n`))
    expect((await readContainerLog(directory, 'main')).map(line => text(line).length)).toEqual([100, 100, 50])
    for (let index = 0; index < 1000; index += 1) out.push(Buffer.from(`${'y'.repeat(80)}\n`))
    time = 5000
    out.push(Buffer.from('calm again\n'))
    const lines = (await readContainerLog(directory, 'main', { tailLines: 2 })).map(text)
    expect(lines[0]).toMatch(/^\(\d+ bytes of output dropped\)$/)
    expect(lines[1]).toBe('calm again')
    log.close()
  })

  test('output that cannot be written is dropped and counted, without other effects', async () => {
    const directory = join(temporaryDirectory(), 'logs')
    writeFileSync(directory, 'in the way')
    const log = openContainerLog(directory, 'main')
    const out = log.stream()
    out.push(Buffer.from('lost\n'))
    rmSync(directory)
    out.push(Buffer.from('kept\n'))
    log.close()
    const lines = (await readContainerLog(directory, 'main')).map(text)
    expect(lines).toEqual([expect.stringMatching(/^\(\d+ bytes of output dropped\)$/), 'kept'])
  })

  test('any output in any chunks is returned line by line', async () => {
    const line = fc.string({ maxLength: 50 }).map(value => value.replaceAll(/[\n\r]/g, ''))
    await fc.assert(
      fc.asyncProperty(fc.array(line, { maxLength: 20 }), fc.array(fc.nat(40)), async (lines, cuts) => {
        const directory = temporaryDirectory()
        const log = openContainerLog(directory, 'main')
        const out = log.stream()
        let content = Buffer.from(lines.map(value => `${value}\n`).join(''))
        for (const cut of cuts) {
          out.push(content.subarray(0, cut))
          content = content.subarray(cut)
        }
        out.push(content)
        out.end()
        log.close()
        expect((await readContainerLog(directory, 'main')).map(text)).toEqual(lines)
      }),
      { numRuns: 30 },
    )
  })
})
