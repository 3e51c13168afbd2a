import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseCidr } from '../../values/cidr.ts'
import type { CompiledRoute } from '../table.ts'
import {
  addCommands,
  allowKey,
  contentOf,
  createEndpointCache,
  type Endpoint,
  type Endpoints,
  isTargetAddress,
  planMaps,
} from './maps.ts'
import { pathsIn } from './paths.ts'

const paths = pathsIn('/run')
const to = '10.96.0.1:5432'

/** The maps as HAProxy keeps them. Applies and refuses commands as HAProxy does. */
class Maps {
  readonly entries = new Map<string, Map<string, string>>([
    [paths.allow, new Map()],
    [paths.ports, new Map()],
  ])
  constructor(endpoints: Endpoints) {
    for (const { map, lines } of contentOf(paths, endpoints))
      for (const line of lines) this.#of(map).set(...(line.split(' ') as [string, string]))
  }
  #of(map: string): Map<string, string> {
    const found = this.entries.get(map)
    if (found === undefined) throw new Error(`unknown map ${map}`)
    return found
  }
  apply(command: string): void {
    const [verb, , map = '', key = '', value = ''] = command.split(' ')
    const entries = this.#of(map)
    if (verb === 'add' && entries.has(key)) throw new Error(`the key exists already: ${command}`)
    if (verb !== 'add' && !entries.has(key)) throw new Error(`the key does not exist: ${command}`)
    if (verb === 'del') entries.delete(key)
    else entries.set(key, value)
  }
}

describe('allowKey', () => {
  test.each([
    [5432, '10.0.0.0/8', 'fd00::1538:10.0.0.0/104'],
    [65535, '0.0.0.0/0', 'fd00::ffff:0.0.0.0/96'],
    [1, '203.0.113.7/32', 'fd00::1:203.0.113.7/128'],
  ])('%i %s', (port, cidr, key) => expect(allowKey(port, cidr)).toBe(key))
})

const endpoint: fc.Arbitrary<Endpoint> = fc.record({
  to: fc.constantFrom('10.96.0.1:5432', '10.96.0.2:5432', undefined),
  rules: fc.uniqueArray(fc.constantFrom('10.0.0.0/8', '10.1.0.0/16', '10.1.2.3/32', '0.0.0.0/0', '1.2.3.0/24')),
})
const endpoints: fc.Arbitrary<Endpoints> = fc
  .array(fc.tuple(fc.integer({ min: 20_000, max: 20_004 }), endpoint))
  .map(pairs => new Map(pairs))

describe('planMaps', () => {
  test('transforms any maps into any other maps, writes no unchanged entry, and never refuses clients that stay admitted', () => {
    fc.assert(
      fc.property(endpoints, endpoints, (have, want) => {
        const maps = new Maps(have)
        const wanted = new Maps(want)
        const commands = planMaps(paths, have, want)
        const touched = new Set<string>()
        for (const command of commands) {
          const [, , map = '', key = ''] = command.split(' ')
          expect(touched.has(`${map} ${key}`)).toBe(false)
          touched.add(`${map} ${key}`)
          // An unchanged entry is never written, so its clients are never refused.
          expect(maps.entries.get(map)?.get(key)).not.toBe(wanted.entries.get(map)?.get(key))
          maps.apply(command)
        }
        expect(maps.entries).toEqual(wanted.entries)
      }),
      { numRuns: 1_000 },
    )
  })

  test('adds before it removes', () => {
    const have = new Map([[20_000, { to, rules: ['10.0.0.0/8'] }]])
    const want = new Map([[20_000, { to, rules: ['10.1.0.0/16'] }]])
    expect(planMaps(paths, have, want)).toEqual([
      'add map /run/allow.map fd00::4e20:10.1.0.0/112 10.96.0.1:5432',
      'del map /run/allow.map fd00::4e20:10.0.0.0/104',
    ])
  })

  test('returns no commands if nothing changed', () => {
    const have = new Map([[20_000, { to, rules: ['10.0.0.0/8'] }]])
    expect(planMaps(paths, have, new Map([[20_000, { to, rules: ['10.0.0.0/8'] }]]))).toEqual([])
  })
})

describe('the endpoint cache', () => {
  const compiled = (rules: string[]): CompiledRoute => ({
    label: 'shop',
    target: { namespace: 'n', service: 's', port: 5432 },
    rules,
    ranges: new Uint32Array(),
  })

  test('returns the same endpoint while its route and address are unchanged', () => {
    let address: string | undefined = to
    const cache = createEndpointCache({ first: 1, last: 10 }, () => address)
    const [one, two] = [compiled(['10.0.0.0/8']), compiled([])]
    const before = cache.endpoints(
      new Map([
        [1, one],
        [2, two],
      ]),
    )
    const same = cache.endpoints(
      new Map([
        [1, one],
        [2, compiled([])],
      ]),
    )
    expect(same.get(1)).toBe(before.get(1))
    expect(same.get(2)).not.toBe(before.get(2))
    address = undefined
    expect(cache.endpoints(new Map([[1, one]])).get(1)).toEqual({ to: undefined, rules: ['10.0.0.0/8'] })
  })

  test('omits ports that HAProxy does not listen on', () => {
    const cache = createEndpointCache({ first: 5, last: 6 }, () => to)
    const ports = [4, 5, 6, 7].map((port): [number, CompiledRoute] => [port, compiled([])])
    expect([...cache.endpoints(new Map(ports)).keys()]).toEqual([5, 6])
  })

  test('an unreadable route has no target and admits no client', () => {
    const cache = createEndpointCache({ first: 1, last: 10 }, () => to)
    const broken: CompiledRoute = { label: 'x', rules: [], ranges: new Uint32Array() }
    const [, allow] = contentOf(paths, cache.endpoints(new Map([[1, broken]])))
    expect(allow?.lines).toEqual([])
  })
})

test('a payload is split into commands that HAProxy reads completely, without losing a line', () => {
  const lines = Array.from(
    { length: 5_000 },
    (_, index) => `${allowKey(20_000 + (index % 7), `10.0.${index % 256}.0/24`)} ${to}`,
  )
  const commands = addCommands(paths.allow, '7', lines)
  const read = commands.flatMap(command => {
    expect(Buffer.byteLength(command)).toBeLessThan(16_000)
    const [head, ...payload] = command.split('\n')
    expect(head).toBe('add map @7 /run/allow.map <<')
    expect(payload.at(-1)).toBe('')
    return payload.slice(0, -1)
  })
  expect(read).toEqual(lines)
  expect(addCommands(paths.allow, '7', [])).toEqual([])
})

test.each([
  ['10.96.0.1', true],
  ['None', false],
  ['', false],
  ['fd00::1', false],
  ['10.0.0.0/8', false],
])('isTargetAddress(%j) returns %s', (text, is) => {
  expect(isTargetAddress(text)).toBe(is)
  if (is) expect(parseCidr(text)).toBeDefined()
})
