import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  dataRow,
  errorResponse,
  MessageReader,
  MessageWriter,
  type RowSink,
  rowDescription,
  rowHead,
} from './messages.ts'

/** A backend message: type, length, content. */
function message(type: string, content: Buffer): Buffer {
  const head = Buffer.alloc(5)
  head.write(type, 'latin1')
  head.writeInt32BE(content.length + 4, 1)
  return Buffer.concat([head, content])
}

function rowBytes(cells: readonly (string | null)[]): Buffer {
  const int = (value: number, bytes: 2 | 4) => {
    const buffer = Buffer.alloc(bytes)
    buffer.writeIntBE(value, 0, bytes)
    return buffer
  }
  const parts = cells.map(cell =>
    cell === null ? int(-1, 4) : Buffer.concat([int(Buffer.byteLength(cell), 4), Buffer.from(cell)]),
  )
  return Buffer.concat([int(cells.length, 2), ...parts])
}

/** Splits the bytes into pieces of these sizes, repeated. */
function splitInto(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const pieces: Buffer[] = []
  for (let at = 0, index = 0; at < bytes.length; index++) {
    const size = sizes[index % sizes.length] ?? bytes.length
    pieces.push(bytes.subarray(at, at + size))
    at += size
  }
  return pieces
}

const contents = fc.array(fc.tuple(fc.constantFrom('D', 'C', 'Z', 'E', '1', '2'), fc.uint8Array({ maxLength: 300 })), {
  maxLength: 30,
})

describe('reading', () => {
  test('gives the same messages however the bytes are split', () => {
    fc.assert(
      fc.property(contents, fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1 }), (sent, sizes) => {
        const bytes = Buffer.concat(sent.map(([type, content]) => message(type, Buffer.from(content))))
        const read: [string, string][] = []
        const reader = new MessageReader((type, buffer, start, end) => {
          read.push([String.fromCharCode(type), buffer.toString('hex', start, end)])
        })
        for (const piece of splitInto(bytes, sizes)) reader.push(piece)
        expect(read).toEqual(sent.map(([type, content]) => [type, Buffer.from(content).toString('hex')]))
      }),
    )
  })

  test('a message that the caller does not admit is not assembled, and nothing after it is read', () => {
    const read: string[] = []
    const reserved: number[] = []
    const reader = new MessageReader(
      type => read.push(String.fromCharCode(type)),
      bytes => {
        reserved.push(bytes)
        return bytes < 1_000
      },
    )
    const small = message('C', Buffer.alloc(10))
    const large = message('D', Buffer.alloc(5_000))
    reader.push(Buffer.concat([small, large.subarray(0, 7)]))
    reader.push(large.subarray(7))
    reader.push(small)
    expect([read, reserved]).toEqual([['C'], [large.length]])
  })

  test('a description gives names and types of columns', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.string({ unit: 'grapheme' }), fc.nat(2 ** 31))), columns => {
        const parts = columns.map(([name, type]) => {
          const rest = Buffer.alloc(18)
          rest.writeUInt32BE(type, 6)
          return Buffer.concat([Buffer.from(`${name.replaceAll('\0', '')}\0`), rest])
        })
        const count = Buffer.alloc(2)
        count.writeInt16BE(columns.length)
        expect(
          rowDescription(Buffer.concat([Buffer.from('junk'), count, ...parts]), 4, 6 + Buffer.concat(parts).length),
        ).toEqual(columns.map(([name, type]) => ({ name: name.replaceAll('\0', ''), type })))
      }),
    )
  })

  test('a large message is in memory only once', () => {
    const content = Buffer.alloc(8 * 1024 * 1024, 1)
    const bytes = message('D', content)
    let found: Buffer | undefined
    const reader = new MessageReader((_, buffer, start, end) => {
      found = buffer.subarray(start, end)
    })
    for (let at = 0; at < bytes.length; at += 65_536) reader.push(bytes.subarray(at, at + 65_536))
    expect(found?.equals(content)).toBe(true)
    expect(found?.buffer.byteLength).toBe(bytes.length)
  })
})

describe('rows passed to a sink', () => {
  test('are the same however the bytes are split, and of a large row only received bytes are retained', () => {
    const cell = fc.option(fc.string({ maxLength: 40 }))
    const row = fc.record({ head: fc.array(cell, { maxLength: 3 }), last: fc.option(fc.string({ maxLength: 3_000 })) })
    fc.assert(
      fc.property(fc.array(row, { maxLength: 8 }), fc.array(fc.integer({ min: 1, max: 700 })), (rows, lengths) => {
        const bytes = Buffer.concat([
          ...rows.map(({ head, last }) => message('D', rowBytes([...head, last]))),
          message('C', Buffer.from('SELECT 1\0')),
        ])
        const found: { head: (string | undefined)[]; length: number; last: string }[] = []
        let ended = 0
        const sink: RowSink = {
          isForLarge: false,
          begin: (cells, length) => found.push({ head: cells.map(one => one?.toString()), length, last: '' }),
          push(part) {
            const open = found.at(-1)
            if (open !== undefined) open.last += part.toString('latin1')
          },
          flush() {},
        }
        const reader = new MessageReader(
          (type, buffer, start, end) => {
            const head = type === 0x44 ? rowHead(buffer, start, end) : undefined
            if (head === undefined) ended++
            else {
              sink.begin(head.cells, head.lastLength)
              sink.push(buffer.subarray(head.at, end))
            }
          },
          () => true,
          () => sink,
        )
        for (const piece of splitInto(bytes, lengths)) reader.push(piece)
        expect(ended).toBe(1)
        expect(found).toEqual(
          rows.map(({ head, last }) => ({
            head: head.map(one => one ?? undefined),
            length: last === null ? -1 : Buffer.byteLength(last),
            last: Buffer.from(last ?? '').toString('latin1'),
          })),
        )
      }),
    )
  })
})

describe('a row', () => {
  test('is its cells, including nulls', () => {
    const row = Buffer.from('0003' + '00000001' + '61' + 'ffffffff' + '00000000', 'hex')
    expect(dataRow(row, 0, row.length).map(cell => cell?.toString())).toEqual(['a', undefined, ''])
  })
})

describe('an error', () => {
  test('is its fields', () => {
    const content = Buffer.from('SERROR\0VERROR\0C23505\0Mduplicate\0DKey (a)=(ä)\0Hmend it\0\0')
    const { sqlState, message: text, detail, hint } = errorResponse(content, 0, content.length)
    expect([sqlState, text, detail, hint]).toEqual(['23505', 'duplicate', 'Key (a)=(ä)', 'mend it'])
  })

  test('without fields is still an error', () => {
    expect(errorResponse(Buffer.from([0]), 0, 1)).toMatchObject({ sqlState: 'XX000', detail: null })
    expect(errorResponse(Buffer.from('Mcut off'), 0, 8)).toBeInstanceOf(Error)
  })
})

describe('writing', () => {
  test('encodes the length of each message', () => {
    fc.assert(
      fc.property(fc.array(fc.option(fc.string({ maxLength: 9_000 }))), fc.string(), (parameters, name) => {
        const plain = name.replaceAll('\0', '')
        const writer = new MessageWriter()
        writer.parse(plain, 'SELECT 1')
        writer.bind(plain, parameters, [0, 1])
        writer.execute()
        writer.close(plain)
        writer.sync()
        const types: string[] = []
        const reader = new MessageReader(type => types.push(String.fromCharCode(type)))
        for (const piece of writer.take()) reader.push(piece)
        expect(types).toEqual(['P', 'B', 'E', 'C', 'S'])
        expect(Buffer.concat(writer.take())).toHaveLength(0)
      }),
    )
  })

  test('a parameter is its bytes, and null is none', () => {
    const writer = new MessageWriter()
    writer.bind('', ['ä', Buffer.from([255]), null], [])
    // Portal, statement, no formats, three parameters, no result formats.
    expect(Buffer.concat(writer.take()).subarray(5).toString('hex')).toBe(
      `00${'00'}${'0000'}${'0003'}${'00000002c3a4'}${'00000001ff'}${'ffffffff'}${'0000'}`,
    )
  })
  test('taken bytes are not changed by later writes', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.nat(300), fc.nat(90_000)), { maxLength: 300 }), lengths => {
        const writer = new MessageWriter()
        const taken = lengths.map(length => {
          writer.parse('', 'x'.repeat(length))
          writer.sync()
          return { batch: Buffer.concat(writer.take()), length }
        })
        for (const { batch, length } of taken) {
          const messages: [string, string][] = []
          new MessageReader((type, buffer, start, end) => {
            messages.push([String.fromCharCode(type), buffer.toString('utf8', start, end)])
          }).push(batch)
          expect(messages).toEqual([
            ['P', `\0${'x'.repeat(length)}\0\0\0`],
            ['S', ''],
          ])
        }
      }),
      { numRuns: 30 },
    )
  })
})
