import { describe, expect, test } from 'vitest'
import { isDataFault } from './apply.ts'
import { partsOf } from './copy.ts'
import { endpointOf } from './endpoints.ts'
import {
  type Change,
  decode,
  decodeStreamed,
  parsePosition,
  positionText,
  type Relation,
  statusMessage,
  toPostgresTime,
} from './pgoutput.ts'
import { refusals } from './source.ts'
import { statementOf } from './statements.ts'

const bytes = (...parts: (string | number | [number, number] | bigint)[]): Buffer =>
  Buffer.concat(
    parts.map(part => {
      if (typeof part === 'string') return Buffer.from(part)
      const [value, length] = Array.isArray(part) ? part : [part, 1]
      const buffer = Buffer.alloc(typeof value === 'bigint' ? 8 : length)
      if (typeof value === 'bigint') buffer.writeBigUInt64BE(value)
      else buffer.writeUIntBE(value, 0, length)
      return buffer
    }),
  )

describe('messages of pgoutput', () => {
  test('decodes a table and its changes', () => {
    const relation = bytes(
      'R',
      [7, 4],
      'public\0',
      'it\0',
      'd',
      [2, 2],
      1,
      'id\0',
      [23, 4],
      [0, 4],
      0,
      'ü\0',
      [25, 4],
      [0, 4],
    )
    expect(decode(relation)).toEqual({
      kind: 'relation',
      id: 7,
      relation: {
        ...{ schema: 'public', name: 'it', hasFullIdentity: false },
        columns: [
          { name: 'id', type: 23, isKey: true },
          { name: 'ü', type: 25, isKey: false },
        ],
      },
    })
    const row = bytes([2, 2], 't', [1, 4], '5', 'n')
    expect(decode(bytes('I', [7, 4], 'N', row.toString('latin1')))).toEqual({
      kind: 'insert',
      relation: 7,
      row: ['5', null],
    })
    const unchanged = bytes([2, 2], 't', [1, 4], '5', 'u')
    const updated = Buffer.concat([bytes('U', [7, 4], 'K'), row, bytes('N'), unchanged])
    expect(decode(updated)).toEqual({ kind: 'update', relation: 7, old: ['5', null], row: ['5', undefined] })
    expect(decode(Buffer.concat([bytes('D', [7, 4], 'O'), row]))).toEqual({
      kind: 'delete',
      relation: 7,
      old: ['5', null],
    })
    expect(decode(bytes('T', [2, 4], 2, [7, 4], [8, 4]))).toEqual({
      ...{ kind: 'truncate', restartsIdentity: true, relations: [7, 8] },
    })
    expect(() => decode(bytes('?'))).toThrow('unknown kind ?')
  })

  test('decodes the position and time of a commit', () => {
    const at = Date.UTC(2026, 10, 27)
    const commit = bytes('C', 0, 1n, 0x1_0000_00ffn, toPostgresTime(at))
    expect(decode(commit)).toEqual({ kind: 'commit', end: 0x1_0000_00ffn, at })
  })

  test('decodes stream positions, and encodes a confirmation', () => {
    expect(positionText(parsePosition('1A/FF00'))).toBe('1A/FF00')
    expect(decodeStreamed(bytes('k', 9n, 0n, 1))).toEqual({ kind: 'position', end: 9n, wantsReply: true })
    expect(decodeStreamed(bytes('w', 8n, 9n, 0n, 'B'))).toMatchObject({
      kind: 'data',
      end: 9n,
      payload: Buffer.from('B'),
    })
    const status = statusMessage(9n, Date.UTC(2000, 0, 1) + 1, true)
    expect([status.length, status.readBigUInt64BE(9), status.readBigInt64BE(25), status[33]]).toEqual([
      34,
      9n,
      1_000n,
      1,
    ])
  })
})

describe('statements', () => {
  const columns = [
    { name: 'id', type: 23, isKey: true },
    { name: 'doc', type: 114, isKey: false },
    { name: "it's", type: 1_700, isKey: false },
  ]
  const keyed: Relation = { schema: 's', name: 'a"b', hasFullIdentity: false, columns }
  const full: Relation = { ...keyed, hasFullIdentity: true }
  const sqlOf = (change: Change, relation = keyed) => statementOf(change, () => relation)?.sql
  const head = { relation: 1 }

  test.each<[string, Change, Relation, string | undefined]>([
    [
      'an insertion sets identity columns, and escapes names and values',
      { kind: 'insert', ...head, row: ['1', null, "a'b\\c"] },
      keyed,
      `INSERT INTO "s"."a""b" ("id", "doc", "it's") OVERRIDING SYSTEM VALUE VALUES ('1', NULL,  E'a''b\\\\c')`,
    ],
    [
      'an update omits the key and unchanged large values',
      { kind: 'update', ...head, old: undefined, row: ['1', undefined, '2'] },
      keyed,
      `UPDATE ONLY "s"."a""b" SET "it's" = '2' WHERE "id" = '1'`,
    ],
    [
      'an update of the key finds the row by the old key',
      { kind: 'update', ...head, old: ['1', null, null], row: ['2', undefined, undefined] },
      keyed,
      `UPDATE ONLY "s"."a""b" SET "id" = '2' WHERE "id" = '1'`,
    ],
    [
      'an update that changes nothing needs no statement',
      { kind: 'update', ...head, old: undefined, row: ['1', undefined, undefined] },
      keyed,
      undefined,
    ],
    [
      'without a key, the update changes only one of several equal rows',
      { kind: 'update', ...head, old: ['1', '{}', null], row: ['1', '[]', null] },
      full,
      `UPDATE ONLY "s"."a""b" SET "doc" = '[]' WHERE ctid = (SELECT ctid FROM ONLY "s"."a""b" WHERE "id" = '1' AND format('%s', "id") = '1' AND format('%s', "doc") = '{}' AND "it's" IS NULL LIMIT 1)`,
    ],
    [
      'a deletion finds the row by its key',
      { kind: 'delete', ...head, old: ['1', null, null] },
      keyed,
      `DELETE FROM ONLY "s"."a""b" WHERE "id" = '1'`,
    ],
    [
      'a truncation of several tables is one statement',
      { kind: 'truncate', relations: [1, 1], restartsIdentity: false },
      keyed,
      'TRUNCATE ONLY "s"."a""b", ONLY "s"."a""b"',
    ],
  ])('%s', (_, change, relation, expected) => {
    expect(sqlOf(change, relation)).toBe(expected)
  })

  test('a table without identity is refused', () => {
    const none = { ...keyed, columns: columns.map(column => ({ ...column, isKey: false })) }
    expect(() => sqlOf({ kind: 'delete', ...head, old: ['1', null, null] }, none)).toThrow('has no replica identity')
  })
})

test('the error for an unsuitable source names everything that must change', () => {
  const fine = { version: 16, walLevel: 'logical', unlogged: [], withoutIdentity: [], largeObjects: 0 }
  expect(refusals(fine)).toEqual([])
  const tables = Array.from({ length: 7 }, (_, index) => ({ schema: 's', name: `t${index}` }))
  expect(
    refusals({
      version: 10,
      walLevel: 'replica',
      unlogged: tables.slice(0, 1),
      withoutIdentity: tables,
      largeObjects: 2,
    }),
  ).toEqual([
    'the source is Postgres 10: the oldest that can be followed is 11',
    expect.stringMatching(/^the source has wal_level = replica/),
    expect.stringMatching(/^tables without a replica identity: "s"\."t0", .*"s"\."t4" and 2 more: add a primary key/),
    expect.stringMatching(/^unlogged tables: "s"\."t0": /),
    expect.stringMatching(/^2 large objects/),
  ])
})

test('keys and indexes are restored before follow, other entries at the end, and foreign keys not at all', () => {
  const lines = [
    ';',
    '215; 1259 1 TABLE public a app',
    '3071; 2606 2 CONSTRAINT public a a_pkey app',
    '3072; 1259 3 INDEX public a_index app',
    '3073; 2606 4 FK CONSTRAINT public a a_fkey app',
    '3074; 2620 5 TRIGGER public a log app',
    '3075; 3256 6 POLICY public a one app',
    '3076; 2606 7 CHECK CONSTRAINT public a later app',
  ]
  expect(partsOf(lines.join('\n'))).toEqual({
    before: [lines[2], lines[3]].join('\n'),
    atEnd: [lines[0], lines[1], ...lines.slice(5)].join('\n'),
  })
})

test('lost connections, full servers and conflicts are temporary; faults of the data are permanent', () => {
  expect(['08006', '57P01', '53300', '40001', '55006', '55P03', 'ECONNREFUSED', ''].filter(isDataFault)).toEqual([])
  expect(['23505', '42703', '55000', '28P01'].filter(isDataFault)).toEqual(['23505', '42703', '55000', '28P01'])
})

describe('URIs', () => {
  test('the file of sslrootcert is read, at any position among the parameters', async () => {
    const file = encodeURIComponent('bin/commands/move/pure.test.ts')
    const plain = 'postgresql://app:a%40b@127.0.0.1:5433/app'
    for (const query of [`sslmode=verify-full&sslrootcert=${file}`, `sslrootcert=${file}&sslmode=verify-full`])
      expect(await endpointOf('TARGET', `${plain}?${query}`)).toMatchObject({
        ...{ host: '127.0.0.1', address: '127.0.0.1', port: 5433, password: 'a@b', sslmode: 'verify-full' },
        ca: expect.stringContaining('pgoutput'),
      })
    expect(await endpointOf('SOURCE', plain)).toMatchObject({ sslmode: 'require' })
  })

  test.each([
    [undefined, /^the environment variable SOURCE must be a Postgres URI$/],
    ['postgresql://app:secret@127.0.0.1/app?sslmode=prefer', /^SOURCE: must have an sslmode of/],
    ['postgresql://app:secret@127.0.0.1/app?sslrootcert=/none', /^SOURCE: ENOENT/],
  ])('%s is refused, and the error does not contain the password', async (uri, message) => {
    const error = await endpointOf('SOURCE', uri).catch((refusal: Error) => refusal)
    expect(error).toMatchObject({ name: 'UsageError', message: expect.stringMatching(message) })
    expect(String(error)).not.toContain('secret')
  })
})
