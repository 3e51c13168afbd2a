import fc from 'fast-check'
import { expect, test } from 'vitest'
import { lineReader } from './lines.ts'

test('chunk boundaries do not affect lines, and a line that is too long is reported once', () => {
  const text = fc.array(fc.string({ unit: 'grapheme', maxLength: 30 }).map(line => line.replaceAll('\n', ' ')))
  fc.assert(
    fc.property(text, fc.array(fc.integer({ min: 1, max: 7 })), (lines, cuts) => {
      const bytes = Buffer.from(lines.map(line => `${line}\n`).join(''))
      const read = lineReader(20)
      const found = []
      for (let from = 0, turn = 0; from < bytes.length; turn++) {
        const length = cuts[turn % cuts.length] ?? bytes.length
        for (const line of read(bytes.subarray(from, from + length)))
          found.push(line.kind === 'line' ? line.bytes.toString() : undefined)
        from += length
      }
      expect(found).toEqual(lines.map(line => (Buffer.byteLength(line) > 20 ? undefined : line)))
    }),
  )
})

test('reports a line that is too long before it ends', () => {
  const read = lineReader(3)
  expect(read(Buffer.from('four'))).toEqual([{ kind: 'too long' }])
  expect(read(Buffer.from('five\nsix\n'))).toEqual([{ kind: 'line', bytes: Buffer.from('six') }])
})
