import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { refusal } from '../testing/conformance/suite.ts'
import { linesOf } from './lines.ts'

async function* stream(chunks: Buffer[]): AsyncGenerator<Buffer> {
  yield* chunks
}
async function read(chunks: Buffer[], maxBytes = 1_000_000): Promise<string[]> {
  const lines: string[] = []
  for await (const line of linesOf(stream(chunks), maxBytes)) lines.push(line)
  return lines
}

describe('lines', () => {
  test('are complete however their bytes are split', async () => {
    const text = fc.string({ unit: 'grapheme' }).map(line => line.replaceAll('\n', ''))
    await fc.assert(
      fc.asyncProperty(fc.array(text), fc.array(fc.nat(200)), async (lines, cuts) => {
        const bytes = Buffer.from(lines.map(line => `${line}\n`).join(''))
        const at = cuts.map(cut => Math.min(cut, bytes.length)).sort((left, right) => left - right)
        const chunks = [...at, bytes.length].map((end, index) => bytes.subarray(at[index - 1] ?? 0, end))
        expect(await read(chunks)).toEqual(lines)
      }),
    )
  })

  test('text after the last newline is dropped', async () => {
    expect(await read([Buffer.from('one\ntw'), Buffer.from('o')])).toEqual(['one'])
  })

  test('a line at the limit is accepted, a longer line is not', async () => {
    expect(await read([Buffer.from('12345\n')], 5)).toEqual(['12345'])
    await refusal(read([Buffer.from('123'), Buffer.from('456\n')], 5), 'Unavailable')
  })

  test('bytes that are not UTF-8 are refused', async () => {
    await refusal(read([Buffer.from([0xff, 0x0a])]), 'Unavailable')
  })
})
