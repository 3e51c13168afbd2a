/** Bytes that Postgres never sends. Reading them always ends, and throws only ProtocolError. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ProtocolError } from './errors.ts'
import {
  affectedRows,
  dataRow,
  dataRowText,
  describedColumns,
  errorResponse,
  MessageReader,
  type RowSink,
  rowDescription,
  rowHead,
} from './messages.ts'

const message = (type: string, content: string, length = content.length / 2 + 4): Buffer => {
  const head = Buffer.alloc(5)
  head.write(type, 'latin1')
  head.writeInt32BE(length, 1)
  return Buffer.concat([head, Buffer.from(content, 'hex')])
}

const parsers: Readonly<Record<string, (buffer: Buffer, start: number, end: number) => unknown>> = {
  D: (buffer, start, end) => [
    dataRow(buffer, start, end),
    dataRowText(buffer, start, end),
    rowHead(buffer, start, end),
  ],
  T: (buffer, start, end) => [rowDescription(buffer, start, end), describedColumns(buffer, start, end)],
  C: affectedRows,
  E: errorResponse,
}

/** Reads chunks as a connection does; returns the error. */
function read(chunks: readonly Buffer[], sink?: RowSink): unknown {
  let messages = 0
  const reader = new MessageReader(
    (type, buffer, start, end) => {
      if (++messages > 10_000) throw new Error('the messages do not end')
      expect([start <= end, end <= buffer.length]).toEqual([true, true])
      parsers[String.fromCharCode(type)]?.(buffer, start, end)
    },
    bytes => bytes < 100_000,
    () => sink,
  )
  let thrown: unknown
  for (const chunk of chunks)
    try {
      reader.push(chunk)
    } catch (error) {
      thrown ??= error
    }
  return thrown
}

describe('a message', () => {
  test.each([
    ['of length zero', message('N', '', 0)],
    ['of a length that is less than its own bytes', message('N', '', 3)],
    ['of a negative length', message('N', '', -1)],
    ['of a very negative length', message('N', '00', -2_147_483_648)],
    ['with a row of more values than bytes', message('D', '7fff')],
    ['with a row of a negative count', message('D', 'ffff')],
    ['with a row without a count', message('D', '00')],
    ['with a value that ends after its row', message('D', '0001' + '000000ff' + '61')],
    ['with a value of a negative length', message('D', '0001' + 'fffffffe' + '61')],
    ['with a second value after a value that fills the row', message('D', '0002' + '00000004' + '61616161')],
    ['with a description of more columns than bytes', message('T', '0005' + '61')],
    ['with a description whose name does not end', message('T', `0001${'61'.repeat(30)}`)],
  ])('%s is an error, also if the next message follows', (_, bytes) => {
    expect(read([bytes])).toBeInstanceOf(ProtocolError)
    expect(read([Buffer.concat([bytes, message('D', '0001' + '00000001' + '61'), Buffer.alloc(200)])])).toBeInstanceOf(
      ProtocolError,
    )
  })
})

/** Messages in the form in which Postgres sends them. */
const valid = Buffer.concat([
  message('T', `0002${'6100'}${'00'.repeat(18)}${'626200'}${'00'.repeat(18)}`),
  message('D', '0003' + '00000001' + '61' + 'ffffffff' + '00000002' + 'c3a9'),
  message('D', '0000'),
  message('C', Buffer.from('INSERT 0 5\0').toString('hex')),
  message('E', Buffer.from('SERROR\0MOops\0P5\0\0').toString('hex')),
  message('Z', '49'),
])

const mutation = fc.record({ at: fc.nat(valid.length - 1), to: fc.constantFrom(0, 1, 3, 4, 5, 0x44, 0x54, 0x7f, 0xff) })
const mutated = fc.array(mutation, { maxLength: 4 }).map(changes => {
  const bytes = Buffer.concat([valid, valid])
  for (const { at, to } of changes) bytes[at] = to
  return bytes
})
const random = fc.uint8Array({ maxLength: 400 }).map(bytes => Buffer.from(bytes))
/** A type that is parsed, with any length and content. */
const typed = fc
  .tuple(fc.constantFrom(...Object.keys(parsers)), fc.integer({ min: -5, max: 80 }), fc.uint8Array({ maxLength: 80 }))
  .map(([type, length, content]) => message(type, Buffer.from(content).toString('hex'), length))

test('any bytes are read to their end, and no error is of another class', () => {
  const sink: RowSink = { isForLarge: false, begin() {}, push() {}, flush() {} }
  fc.assert(
    fc.property(
      fc.oneof(mutated, random, fc.array(typed, { maxLength: 5 }).map(Buffer.concat)),
      fc.integer({ min: 1, max: 60 }),
      fc.boolean(),
      (bytes, size, hasSink) => {
        const chunks = []
        for (let at = 0; at < bytes.length; at += size) chunks.push(bytes.subarray(at, at + size))
        const error = read(chunks, hasSink ? sink : undefined)
        if (error !== undefined) expect(error).toBeInstanceOf(ProtocolError)
      },
    ),
    { numRuns: 3_000 },
  )
})

test('the messages that are changed are valid', () => {
  expect(read([valid])).toBeUndefined()
})
