import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ConfigMap } from '../cluster/kinds.ts'
import { systemNamespace } from '../crds/metadata.ts'
import { type Route, routeKey, routeName } from '../routes/route.ts'
import { contains, parseAddress, parseCidr } from '../values/cidr.ts'
import { buildTable, decideConnection, normaliseAddress, withoutRoute, withRoute } from './table.ts'

const target = { namespace: 'espalier-t-1', service: 'db-1', port: 5432 }
const shop = (rules: string[], port = 6000): Route => ({
  databaseId: 'id',
  label: 'shop-12345678',
  port,
  target,
  rules,
})

const configMap = (text: string | undefined, name = routeName(6000)): ConfigMap => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, namespace: systemNamespace },
  ...(text === undefined ? {} : { data: { [routeKey]: text } }),
})
const routeMap = (route: Route, name = routeName(route.port)) => configMap(JSON.stringify(route), name)

const allowed = { kind: 'allow', label: 'shop-12345678', target }
const denied = { kind: 'deny', label: 'shop-12345678' }

describe('verdict', () => {
  const { table } = buildTable([routeMap(shop(['203.0.113.0/24', '198.51.100.7/32'])), routeMap(shop([], 6001))])

  test.each([
    ['inside a block', 6000, '203.0.113.255', allowed],
    ['the exact address of a rule', 6000, '198.51.100.7', allowed],
    ['the next address', 6000, '198.51.100.8', denied],
    ['no rules', 6001, '203.0.113.1', denied],
    ['no route', 6002, '203.0.113.1', { kind: 'unknown' }],
    ['IPv6', 6000, '2001:db8::1', denied],
    ['IPv6 with a zone', 6000, 'fe80::1%eth0', denied],
    ['an empty address', 6000, '', denied],
  ])('%s', (_name, port, address, expected) => {
    expect(decideConnection(table, port, address)).toEqual(expected)
  })

  test('0.0.0.0/0 admits every IPv4 address, but no IPv6', () => {
    const open = buildTable([routeMap(shop(['0.0.0.0/0']))]).table
    for (const address of ['0.0.0.0', '127.0.0.1', '255.255.255.255'])
      expect(decideConnection(open, 6000, address)).toEqual(allowed)
    expect(decideConnection(open, 6000, '::1')).toEqual(denied)
  })

  const blockOf = (address: fc.Arbitrary<number>, prefix: fc.Arbitrary<number>) =>
    fc.tuple(address, prefix).map(([number, bits]) => `${text(number)}/${bits}`)
  /** Blocks anywhere, and small blocks close together, which touch, overlap, or leave gaps of a single address. */
  const block = fc.oneof(
    blockOf(fc.integer({ min: 0, max: 0xffffffff }), fc.integer({ min: 0, max: 32 })),
    blockOf(fc.integer({ min: 0x0a000000, max: 0x0a00003f }), fc.integer({ min: 28, max: 32 })),
  )
  /** Addresses near the edges of the rules, where errors are likely, and some other addresses. */
  const near = (rules: string[]) =>
    rules.flatMap(rule => {
      const { network, prefix } = parseCidr(rule) ?? { network: 0, prefix: 32 }
      const last = network + 2 ** (32 - prefix) - 1
      return [network - 1, network, last, last + 1].filter(number => number >= 0 && number <= 0xffffffff)
    })

  test('equals the result of comparing with each rule', () => {
    fc.assert(
      fc.property(fc.array(block, { maxLength: 50 }), fc.integer({ min: 0, max: 0xffffffff }), (rules, anywhere) => {
        const { table: built } = buildTable([routeMap(shop(rules))])
        for (const number of [anywhere, ...near(rules)]) {
          const address = text(number)
          const admits = rules.some(rule => {
            const parsed = parseCidr(rule)
            return parsed !== undefined && contains(parsed, parseAddress(address) ?? -1)
          })
          expect(decideConnection(built, 6000, address).kind).toBe(admits ? 'allow' : 'deny')
        }
      }),
      { numRuns: 300 },
    )
  })
})

const text = (number: number) => [24, 16, 8, 0].map(shift => (number >>> shift) & 255).join('.')

describe('an unreadable route is closed', () => {
  const open = shop(['0.0.0.0/0'])
  test.each<[string, ConfigMap, string]>([
    ['no data', configMap(undefined), 'route-6000: has no route.json'],
    ['no JSON', configMap('{'), 'route-6000: route.json is not JSON'],
    ['not an object', configMap('[]'), 'route-6000: route.json: '],
    ['an invalid rule', routeMap(shop(['0.0.0.0/0', 'localhost'])), 'route-6000: route.json.rules.1: '],
    ['an IPv6 rule', routeMap(shop(['::/0'])), 'route-6000: route.json.rules.0: '],
    ['too many rules', routeMap(shop(Array(51).fill('0.0.0.0/0'))), 'route-6000: route.json.rules: '],
    ['no field for rules', configMap(JSON.stringify({ ...open, rules: undefined })), 'route-6000: route.json.rules: '],
    ['a port that differs from the name', routeMap(open, 'route-6003'), 'route-6003: route.json.port: must be 6003'],
    ['an unknown field', configMap(JSON.stringify({ ...open, also: 1 })), 'route-6000: route.json: '],
  ])('%s', (_name, broken, problem) => {
    const before = buildTable([routeMap(open), routeMap({ ...open, port: 6003 })]).table
    const { table, problems } = withRoute(before, broken)
    const port = Number(broken.metadata.name.slice(6))
    expect(decideConnection(before, port, '127.0.0.1').kind).toBe('allow')
    expect(decideConnection(table, port, '127.0.0.1')).toEqual({ kind: 'deny', label: broken.metadata.name })
    expect(problems).toHaveLength(1)
    expect(problems[0]).toContain(problem)
  })

  test.each(['route-0', 'route-06000', 'route-65536', 'route-6000x'])('a ConfigMap named %s reserves no port', name => {
    const { table, problems } = buildTable([routeMap(open, name)])
    expect(table.size).toBe(0)
    expect(problems).toEqual([`${name}: the name of a port route must be route-<port>, with a port from 1 to 65535`])
  })
})

test.each([
  ['a route by host name', 'route-http-rest.shop.db.test', { kind: 'http', host: 'rest.shop.db.test' }],
  ['a route by host name that cannot be read', 'route-http-rest.shop.db.test', { kind: 'http' }],
  ['a kind of a later version', 'route-grpc-shop', { kind: 'grpc', service: 'shop' }],
  ['an unknown name', 'other', {}],
])('%s is ignored: it reserves no port, closes none, and is no error', (_, name, record) => {
  const { port: _port, ...rest } = shop(['0.0.0.0/0'])
  const other = configMap(JSON.stringify({ ...rest, ...record }), name)
  const before = buildTable([routeMap(shop(['0.0.0.0/0']))]).table
  expect(buildTable([other])).toEqual({ table: new Map(), problems: [] })
  expect(withRoute(before, other)).toEqual({ table: before, problems: [] })
  expect(withoutRoute(before, name)).toEqual(before)
})

test('a change creates a new table and does not modify the old table', () => {
  const first = buildTable([routeMap(shop(['127.0.0.1/32']))]).table
  const second = withRoute(first, routeMap(shop([]))).table
  const third = withoutRoute(second, routeName(6000))
  expect([first, second, third].map(table => decideConnection(table, 6000, '127.0.0.1').kind)).toEqual([
    'allow',
    'deny',
    'unknown',
  ])
  expect(withoutRoute(first, 'other').size).toBe(1)
})

test.each([
  ['203.0.113.7', '203.0.113.7'],
  ['::ffff:203.0.113.7', '203.0.113.7'],
  ['::FFFF:203.0.113.7', '203.0.113.7'],
  ['::1', '::1'],
  ['2001:db8::ffff:203.0.113.7', '2001:db8::ffff:203.0.113.7'],
])('the address %s is %s', (address, normalised) => {
  expect(normaliseAddress(address)).toBe(normalised)
})
