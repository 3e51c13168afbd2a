import { expect, test } from 'vitest'
import { UsageError } from './command.ts'
import { readDashFlags } from './dash-flags.ts'

const kinds = { http: 'switch', addr: 'value', 'add-token': 'switch' } as const

test.each<[string[], [string, string | true][]]>([
  [[], []],
  [
    ['-http', '--addr', ':1'],
    [
      ['http', true],
      ['addr', ':1'],
    ],
  ],
  [
    ['-http=false', '--addr=a=b'],
    [
      ['http', 'false'],
      ['addr', 'a=b'],
    ],
  ],
  [['-addr', '-http'], [['addr', '-http']]],
  [['-addr='], [['addr', '']]],
])('%j is parsed', (args, flags) => {
  expect([...readDashFlags(args, kinds)]).toEqual(flags)
})

test.each([
  [['-htp'], '-htp is not a flag; did you mean -http?'],
  [['-constructor'], '-constructor is not a flag; --help lists them'],
  [['-http', '-http'], '-http is given twice'],
  [['-addr'], '-addr requires a value'],
  [['-http', 'my secret'], 'argument 2 is not a flag; --help lists them'],
  [['-'], 'argument 1 is not a flag; --help lists them'],
  [[''], 'argument 1 is not a flag; --help lists them'],
])('%j is refused', (args, message) => {
  expect(() => readDashFlags(args, kinds)).toThrow(new UsageError(message))
})
