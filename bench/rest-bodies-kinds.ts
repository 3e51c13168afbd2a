/**
 * The bodies of 10 MB that bench/rest-bodies.ts sends: each kind that the service reads, in its most expensive form,
 * and bodies that the service does not have to read.
 */

type Kind = {
  readonly name: string
  /** Method and target. */
  readonly line: string
  readonly headers?: readonly string[]
  readonly isChunked?: boolean
  readonly body: () => readonly Buffer[]
}

const size = 10_000_000

/** Repeats the piece between a beginning and an end until the body has its full size. */
function filled(piece: string, begin = '', end = ''): readonly Buffer[] {
  const times = Math.floor((size - begin.length - end.length) / piece.length)
  return [Buffer.from(begin + piece.repeat(times) + end)]
}

/** Fills the body with different pieces, which contain their number. */
function numbered(piece: (number: number) => string, begin: string, end: string): readonly Buffer[] {
  const parts: string[] = []
  let length = begin.length + end.length
  for (let number = 0; length < size; number++) {
    const part = piece(number)
    parts.push(part)
    length += part.length + 1
  }
  return [Buffer.from(begin + parts.join(',') + end)]
}

const json = 'Content-Type: application/json'
const csv = 'Content-Type: text/csv'
const form = 'Content-Type: application/x-www-form-urlencoded'

const bodies: Readonly<Record<string, { header: string; body: () => readonly Buffer[] }>> = {
  'CSV, rows of one character': { header: csv, body: () => filled('1\n', 'a\n') },
  'CSV, 5,000,000 columns': { header: csv, body: () => filled('a,', '', 'a\n') },
  'CSV, 1,600 columns of nothing': {
    header: csv,
    body: () =>
      filled(`${','.repeat(1_599)}\n`, `${Array.from({ length: 1_600 }, (_, index) => `a${index}`).join()}\n`),
  },
  'CSV, names of 60 characters': {
    header: csv,
    body: () =>
      filled(
        `${','.repeat(99)}\n`,
        `${Array.from({ length: 100 }, (_, index) => `${index}`.padEnd(60, 'x')).join()}\n`,
      ),
  },
  'CSV, one field of quotes': { header: csv, body: () => filled('""', 'a\n"', '"\n') },
  'CSV, control characters': { header: csv, body: () => filled('\u0001', 'a\n') },
  'JSON, 500 deep, again and again': {
    header: json,
    body: () => filled(`${'['.repeat(497)}${']'.repeat(497)},`, '[{"a":[', '1]}]'),
  },
  'JSON, deeper than it may': { header: json, body: () => filled('[') },
  'JSON, an object of many keys': { header: json, body: () => numbered(number => `"k${number}":1`, '{', '}') },
  'JSON, one long key': { header: json, body: () => filled('k', '{"', '":1}') },
  'JSON, a long key in each object': {
    header: json,
    body: () => filled(`{"${'k'.repeat(100_000)}":1},`, '[', '{"k":1}]'),
  },
  'JSON, a number of 10,000,000 digits': { header: json, body: () => filled('1', '{"a":', '}') },
  'JSON, a list of numbers': { header: json, body: () => filled('1,', '[', '1]') },
  'JSON, empty objects': { header: json, body: () => filled('{},', '[', '{}]') },
  'JSON, records': { header: json, body: () => filled('{"a":"some text","b":"1"},', '[', '{"a":"1","b":"1"}]') },
  'JSON, records in another order': {
    header: json,
    body: () => filled('{"b":1,"a":1},', '[{"a":1,"b":1},', '{"a":1,"b":1}]'),
  },
  'JSON, records of other keys': { header: json, body: () => numbered(number => `{"k${number}":1}`, '[', ']') },
  'JSON, escapes': { header: json, body: () => filled('\\u0061', '{"a":"', '"}') },
  'JSON, broken at its end': { header: json, body: () => filled('{"a":1},', '[', '{"a":1}}') },
  'a form, percent-encoded': { header: form, body: () => filled('%41', 'a=') },
  'a form, badly percent-encoded': { header: form, body: () => filled('%41%zz%ff', 'a=') },
  'a form of many fields': { header: form, body: () => filled('a=1&') },
  'a form of control characters': { header: form, body: () => filled('\u0001', 'a=') },
}

const targets = [
  ['not granted', 'POST /locked'],
  ['granted', 'POST /open'],
] as const

const anyBytes = () => filled('\u0001"\\x')
const records = bodies['JSON, records']?.body ?? anyBytes

/** Sends each byte in a separate chunk. */
const byteByByte = () => [...filled('1\r\n1\r\n'), Buffer.from('0\r\n\r\n')]

export const kinds: readonly Kind[] = [
  ...targets.flatMap(([who, line]) =>
    Object.entries(bodies).map(([name, { header, body }]) => ({
      name: `${name}; ${who}`,
      line,
      headers: [header],
      body,
    })),
  ),
  { name: 'JSON for a function; not granted', line: 'POST /rpc/locked_json', headers: [json], body: records },
  {
    name: 'JSON of many keys for a function; granted',
    line: 'POST /rpc/open_json',
    headers: [json],
    body: () => numbered(number => `"k${number}":1`, '{', '}'),
  },
  {
    name: 'a text for a function; granted',
    line: 'POST /rpc/open_text',
    headers: ['Content-Type: text/plain'],
    body: anyBytes,
  },
  {
    name: 'bytes for a function; granted',
    line: 'POST /rpc/open_bytes',
    headers: ['Content-Type: application/octet-stream'],
    body: anyBytes,
  },
  {
    name: 'a form of quotes for a variadic function; granted',
    line: 'POST /rpc/open_words',
    headers: [form],
    body: () => filled('"', 'a='),
  },
  { name: 'JSON, byte by byte; granted', line: 'POST /open', headers: [json], isChunked: true, body: byteByByte },
  { name: 'an update by JSON; not granted', line: 'PATCH /locked?a=eq.1', headers: [json], body: records },
  { name: 'columns given; granted', line: 'POST /open?columns=a,b', headers: [json], body: records },
  {
    name: 'columns given, broken JSON; granted',
    line: 'POST /open?columns=a,b',
    headers: [json],
    body: () => filled('{"a":1},', '[', '{"a":1}}'),
  },
  { name: 'a relation that does not exist', line: 'POST /nowhere', headers: [csv], body: anyBytes },
  {
    name: 'a function that does not exist',
    line: 'POST /rpc/nowhere',
    headers: [json],
    body: () => numbered(number => `"k${number}":1`, '{', '}'),
  },
  { name: 'a method that no relation has', line: 'PROPFIND /open', headers: [json], body: records },
  { name: 'an unsupported content type', line: 'POST /open', headers: ['Content-Type: image/png'], body: anyBytes },
  {
    name: 'a token that is not valid',
    line: 'POST /open',
    headers: [csv, 'Authorization: Bearer a.b.c'],
    body: anyBytes,
  },
]
