/** A type's values: as text for a query string, a form or CSV, and as JSON for a body. */
import type { Random } from './random.ts'

const byType: Readonly<Record<string, readonly string[]>> = {
  int: ['1', '2', '3', '-2', '0', '99999999999', '1.5', '4', '1', '2'],
  small: ['1', '3', '5', '0', '-1', 'x'],
  number: ['1.5', '7', 'NaN', 'Infinity', '0.001', '1e3', '10.5'],
  bool: ['true', 'false', 't', 'no', '2'],
  text: [
    'one',
    'Acme',
    'Alpha',
    'first',
    'a*',
    '*a*',
    '%a%',
    'A.*',
    'x',
    'abc',
    'two, "2" (x)',
    '',
    'null',
    'a',
    'b c',
    'Früh 😀 %_\\*',
    'sub,ject',
    '(x)',
    'a.b',
  ],
  trigger: ['a', 'c', 'raise', 'status', 'skip', 'skip', 'header'],
  uuid: ['00000000-0000-0000-0000-000000000001', '00000000000000000000000000000002', 'x'],
  bytes: ['\\x00ff', '\\x61', 'a'],
  date: ['2020-01-01', '1999-12-31', 'infinity', '2020-01-01 10:00+00', '2020-13-01', 'today2'],
  time: ['10:00', '23:59:59', '25:00'],
  span: ['1 day', '-1 mons', 'x'],
  net: ['10.0.0.1', '::1', '10.0.0.0/8', '10.0.0.1/8'],
  json: ['{"a": 1}', '[]', '1', 'null', '"text"', '{', 'v', '{"a": {"b": 2}}'],
  ints: ['{1,2,3}', '{}', '{1}', '{NULL,4}', '{x}', '1'],
  texts: ['{a,"b c"}', '{}', '{x}', '{glad}', '{', 'a'],
  range: ['[1,5)', 'empty', '[2,3]', '(,)', '[5,1]', '3'],
  ranges: ['{[1,3)}', '{}', '{[4,)}', 'x'],
  period: ['[2020-01-01,2020-06-01)', '(,)', '[2022-01-01,)'],
  search: ['cat', "'fat' & 'rat'", 'cat:*', 'fat rat', '!dog', 'a b c', '"fat rat"', '('],
  mood: ['glad', 'so so', 'sad', 'angry'],
  pair: ['(1,a)', '(,)', '(4,"b,c")', 'x'],
  bits: ['101', '', '1', '2'],
  point: ['(1,2)', 'x'],
  code: ['T7', 'T8', 'T1', '7', 'x'],
  money: ['1.5', '$1,000.00', '-1000', 'x'],
  xml: ['<a/>', 'x', '<a', ''],
  days: ['[2020-01-01,2020-02-01)', 'empty', '[2020-01-15,]', '2020-01-01'],
  spans: ['{"[1,3)","[5,6)"}', '{}', '{"[1,3)"}', '{[1'],
  pairs: ['{"(1,a)"}', '{}', '{"(1,a)","(,)"}', '{(1'],
  exact: ['1.25', '0', '10000', '1.255', 'x'],
  mac: ['08:00:2b:01:02:03', '08002b010203', 'x'],
  stamps: ['{2020-01-01 00:00+00}', '{}', '{infinity}', 'x'],
  client: ['(1,Acme,Rome,2)', '(,,,)', '{"id": 5, "name": "x"}', 'x'],
  told: ['method', 'path', 'headers', 'cookies', 'jwt.claims'],
  header: ['x-told', 'accept', 'cookie', 'prefer', 'content-type', 'authorization'],
  headers: [
    '[{"X-A": "b"}]',
    '[{"Set-Cookie": "a=1"}, {"Set-Cookie": "b=2"}]',
    '[{"X-A": "ü €"}]',
    '{"X-A": "b"}',
    '[{"a": 1}]',
    '[{"Content-Type": "text/own"}]',
    '[]',
    'x',
    '[{"Location": "/x"}, {"Cache-Control": "no-cache"}]',
  ],
  status: ['200', '201', '404', '299', 'x', '-1', ''],
  state: [
    'PT402',
    'PT4',
    'PTabc',
    'P0001',
    '23505',
    '42501',
    '53400',
    '22012',
    'PGRST',
    'PGRST',
    'PGRST',
    '57014',
    '40003',
    'P0002',
    '08000',
    '54000',
    '55000',
    '28000',
    '42P17',
    '25006',
    'XX000',
    '21000',
  ],
  raised: [
    'failed',
    '{"code": "1", "message": "m"}',
    '{"code": "1", "message": "m", "details": "d", "hint": "h"}',
    '{"code": 1}',
    '{',
  ],
  detail: [
    '',
    'd',
    '{"status": 332, "headers": {"X-R": "1"}}',
    '{"status": 404, "headers": {}, "status_text": "Gone Fishing"}',
    '{"headers": {}}',
    '{',
  ],
}

const unusual = [
  '',
  ' ',
  'null',
  '"',
  '""',
  '"a',
  "'",
  '\\',
  '(',
  ')',
  ',',
  '.',
  '*',
  '%',
  'ä',
  '😀',
  '->',
  ':',
  '{',
  '}',
  '[',
  '"a,b"',
  '"a\\"b"',
  '(a,b)',
  'not.eq.1',
  ' a ',
]

export function value(random: Random, type: string): string {
  if (random.percent(4)) return random.pick(unusual)
  // A response with a status below 200 is not the final response.
  if (random.percent(4) && type !== 'status') return value(random, random.pick(Object.keys(byType)))
  return random.pick(byType[type] ?? byType.text ?? unusual)
}

/** A value for a column in a body: mostly of the column's type, in JSON's form. */
export function jsonValue(random: Random, type: string): unknown {
  if (random.percent(8)) return null
  if (random.percent(5) && type !== 'status')
    return random.pick([true, 1.5, -3, [], {}, [1, null], { a: [1] }, '', 'x'])
  const text = value(random, type)
  switch (type) {
    case 'int':
    case 'small':
    case 'number':
      return random.percent(85) && Number.isFinite(Number(text)) && text !== '' ? Number(text) : text
    case 'bool':
      return text === 'true'
    case 'json':
    case 'ints':
    case 'texts':
      if (random.percent(30)) return text
      return random.pick([{ a: 1 }, [1, 2], [], ['a', null], 'x'])
    case 'code':
      return random.percent(80) ? random.pick(['C1', 'C2', 'C7']) : text
    default:
      return text
  }
}
