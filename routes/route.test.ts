import { describe, expect, test } from 'vitest'
import {
  acknowledged,
  acknowledgedAnnotation,
  type GatewayLease,
  gatewayClockSkewSeconds,
  gatewayComponent,
  gatewayLeaseName,
  gatewayLeaseSeconds,
  hostOfRoute,
  httpRouteName,
  newlyUnreachable,
  portOfRoute,
  portRefusedBy,
  portsInUseAnnotation,
  readAnyRoute,
  readRoute,
  routeComponent,
  routeKey,
  routeName,
  unreachableAnnotation,
} from './route.ts'

const now = Date.parse('2026-01-01T00:00:00Z')
const lease = (name: string, ageSeconds: number, annotations: Record<string, string>): GatewayLease => ({
  metadata: { name, annotations },
  spec: { renewTime: new Date(now - ageSeconds * 1000).toISOString() },
})
const acked = (name: string, version: string, ageSeconds = 1) =>
  lease(name, ageSeconds, { [acknowledgedAnnotation]: version })

test('names that other gateway versions use are unchanged', () => {
  expect([routeName(5432), routeKey, routeComponent]).toEqual(['route-5432', 'route.json', 'route'])
  expect([gatewayLeaseName('one'), gatewayComponent]).toEqual(['gateway-one', 'gateway'])
  expect([acknowledgedAnnotation, portsInUseAnnotation, unreachableAnnotation]).toEqual([
    'espalier.dev/acknowledged-resource-version',
    'espalier.dev/ports-in-use',
    'espalier.dev/unreachable-ports',
  ])
})

test.each<[string, number | undefined]>([
  ['route-1', 1],
  ['route-5432', 5432],
  ['route-65535', 65535],
  ['route-65536', undefined],
  ['route-0', undefined],
  ['route-05432', undefined],
  ['route-5432x', undefined],
  ['route-123456', undefined],
  ['my-route-5432', undefined],
  ['route-', undefined],
])('portOfRoute(%j) is %j', (name, port) => {
  expect(portOfRoute(name)).toBe(port)
})

describe('a route', () => {
  const route = {
    databaseId: '9b2f7a6e',
    label: 'one-9b2f7a6e',
    port: 5432,
    target: { namespace: 'tenant', service: 'one', port: 5432 },
    rules: ['192.0.2.0/24'],
  }
  const read = (value: unknown, name = 'route-5432') =>
    readRoute({ metadata: { name }, data: { 'route.json': typeof value === 'string' ? value : JSON.stringify(value) } })
  const rulesOf = (count: number) => Array.from({ length: count }, () => '192.0.2.0/24')

  test.each<[string, typeof route]>([
    ['with rules', route],
    ['without rules (the endpoint is closed)', { ...route, rules: [] }],
    ['with the maximum number of rules', { ...route, rules: rulesOf(50) }],
    ['to the highest port', { ...route, target: { ...route.target, port: 65535 } }],
    ['to the lowest port', { ...route, target: { ...route.target, port: 1 } }],
  ])('%s is parsed', (_, value) => {
    expect(read(value)).toEqual({ route: value })
  })

  test.each<[string, unknown, RegExp]>([
    ['that is not JSON', '{', /^route\.json is not JSON$/],
    ['with a port that differs from its name', { ...route, port: 5433 }, /^route\.json\.port: must be 5432/],
    ['without a database id', { ...route, databaseId: undefined }, /^route\.json\.databaseId: ./],
    [
      'without a target service',
      { ...route, target: { namespace: 'tenant', port: 5432 } },
      /^route\.json\.target\.service: ./,
    ],
    ['to port 0', { ...route, target: { ...route.target, port: 0 } }, /^route\.json\.target\.port: ./],
    ['to port 65536', { ...route, target: { ...route.target, port: 65536 } }, /^route\.json\.target\.port: ./],
    [
      'with an unknown field in its target',
      { ...route, target: { ...route.target, host: 'x' } },
      /^route\.json\.target: ./,
    ],
    [
      'with a rule that is not a CIDR block',
      { ...route, rules: ['192.0.2.0/24', '192.0.2.0/33'] },
      /^route\.json\.rules\.1: ./,
    ],
    ['with too many rules', { ...route, rules: rulesOf(51) }, /^route\.json\.rules: ./],
    ['with an unknown field (of a later version)', { ...route, deny: ['192.0.2.7'] }, /^route\.json: ./],
    ['that is null', null, /^route\.json: ./],
  ])('%s is invalid, with the reason', (_, value, problem) => {
    expect(read(value)).toEqual({ problem: expect.stringMatching(problem) })
  })

  test('is identified by the name and key of its ConfigMap', () => {
    expect(read(route, 'routes')).toEqual({
      problem: 'the name of a port route must be route-<port>, with a port from 1 to 65535',
    })
    const metadata = { name: 'route-5432' }
    const others: Record<string, string>[] = [{}, { 'other.json': JSON.stringify(route) }]
    for (const data of others) expect(readRoute({ metadata, data })).toEqual({ problem: 'has no route.json' })
    expect(readRoute({ metadata })).toEqual({ problem: 'has no route.json' })
  })

  test.each([0, 65536])('never has port %i', port => {
    expect(read({ ...route, port }, `route-${port}`).route).toBeUndefined()
  })
})

describe('a route by host name', () => {
  const host = 'shop-1.db.test'
  const rest = { service: 'rest', target: { namespace: 'tenant', service: 'db-1-rest', port: 3000 }, rules: [] }
  const mcp = { ...rest, service: 'mcp', bridgePort: 8090, unavailable: 'suspended' }
  const rag = { ...rest, service: 'rag', rules: ['203.0.113.0/24'], tokenDigest: 'ab'.repeat(32) }
  const route = { kind: 'http', databaseId: '9b2f7a6e', label: 'shop-1', host, services: [rest, mcp, rag] }
  const read = (value: unknown, name = httpRouteName(host)) =>
    readAnyRoute({ metadata: { name }, data: { 'route.json': JSON.stringify(value) } })

  test('reserves the host in its name, and no port', () => {
    expect(hostOfRoute(httpRouteName(host))).toBe(host)
    expect(portOfRoute(httpRouteName('5432'))).toBeUndefined()
    expect(read(route)).toEqual({ kind: 'http', host, route })
    expect(
      readRoute({ metadata: { name: httpRouteName(host) }, data: { 'route.json': JSON.stringify(route) } }),
    ).toEqual({
      problem: 'the name of a port route must be route-<port>, with a port from 1 to 65535',
    })
  })
  test.each<[string, unknown, RegExp]>([
    ['with a host that differs from its name', { ...route, host: 'other.db.test' }, /^route\.json\.host: must be shop/],
    ['without a kind', { ...route, kind: undefined }, /^route\.json\.kind: ./],
    ['that has a port', { ...route, port: 5432 }, /^route\.json: ./],
    ['that has rules outside its services', { ...route, rules: [] }, /^route\.json: ./],
    ['without services', { ...route, services: undefined }, /^route\.json\.services: ./],
    ['of an unknown service', { ...route, services: [{ ...rest, service: 'grpc' }] }, /^route\.json\.services\.0\./],
    [
      'of a service twice',
      { ...route, services: [rest, rest] },
      /^route\.json\.services: at most one service of each type/,
    ],
    ['of a service without rules', { ...route, services: [{ ...rest, rules: undefined }] }, /services\.0\.rules: ./],
    ['with an invalid rule', { ...route, services: [{ ...rest, rules: ['any'] }] }, /services\.0\.rules\.0: ./],
    [
      'with 51 rules',
      { ...route, services: [{ ...rest, rules: Array(51).fill('127.0.0.1') }] },
      /services\.0\.rules: /,
    ],
    [
      'with a bridge for rest',
      { ...route, services: [{ ...rest, bridgePort: 1 }] },
      /bridgePort: only mcp has a bridge/,
    ],
    [
      'with a token digest that is not SHA-256 in hexadecimal digits',
      { ...route, services: [{ ...rag, tokenDigest: 'secret' }] },
      /services\.0\.tokenDigest: ./,
    ],
    [
      'with an unknown value of unavailable',
      { ...route, services: [{ ...rest, unavailable: 'maybe' }] },
      /services\.0\.unavailable/,
    ],
    ['with an unknown key', { ...route, services: [{ ...rest, public: true }] }, /^route\.json\.services\.0: ./],
  ])('%s is invalid, with the reason', (_, value, problem) => {
    expect(read(value)).toEqual({ kind: 'http', host, problem: expect.stringMatching(problem) })
  })
  test.each(['route-http-', 'route-http-UPPER', 'route-http-a..b', 'route-grpc-shop', 'routes'])(
    'is not read from the name %s, whose kind is unknown',
    name => {
      expect(read(route, name)).toEqual({ kind: 'unknown' })
    },
  )
  test('is invalid as a port route, because it has a kind', () => {
    const { host: _, services: _services, ...others } = route
    expect(read({ ...others, target: rest.target, rules: [], port: 5432 }, 'route-5432')).toMatchObject({
      kind: 'port',
      problem: expect.any(String),
    })
  })
})

describe('acknowledged', () => {
  test.each<[string, string, GatewayLease[], boolean, string[]]>([
    ['every live gateway at or above the version', '100', [acked('a', '100'), acked('b', '101')], true, []],
    ['one gateway below the version', '100', [acked('a', '100'), acked('b', '99')], false, ['b']],
    ['versions are numbers, not text', '99', [acked('a', '100')], true, []],
    ['versions larger than a double can represent', '9007199254740993', [acked('a', '9007199254740992')], false, ['a']],
    ['no gateway', '1', [], false, []],
    ['only an expired gateway', '1', [acked('a', '5', gatewayLeaseSeconds + gatewayClockSkewSeconds)], false, []],
    ['an expired gateway does not count', '5', [acked('a', '5'), acked('b', '1', 1000)], true, []],
    [
      'a gateway stays live for gatewayClockSkewSeconds after its Lease has expired',
      '5',
      [acked('a', '5'), acked('b', '1', 95)],
      false,
      ['b'],
    ],
    ['a gateway whose clock is ahead is live', '5', [acked('a', '1', -30)], false, ['a']],
    ['a gateway whose Lease has no acknowledgement', '5', [lease('a', 1, {})], false, ['a']],
    ['a gateway without annotations', '5', [{ metadata: { name: 'a' }, spec: lease('a', 1, {}).spec }], false, ['a']],
    ['an annotation that is not a version', '5', [acked('a', '10x')], false, ['a']],
    ['an annotation that ends like a version', '5', [acked('a', 'x10')], false, ['a']],
    ['a version that would take long to compare', '5', [acked('a', '9'.repeat(31))], false, ['a']],
    ['a required version that ends like a version', 'x5', [acked('a', '10')], false, ['a']],
    ['an empty required version', '', [acked('a', '10')], false, ['a']],
    ['a lease without a time is not live', '5', [{ metadata: { name: 'a' } }], false, []],
  ])('%s', (_name, version, leases, done, waitingFor) => {
    expect(acknowledged(version, leases, now)).toEqual({ done, waitingFor })
  })
})

test('portRefusedBy names the live gateways that could not bind the port', () => {
  const refusing = (name: string, ports: string, age = 1) => lease(name, age, { [portsInUseAnnotation]: ports })
  const leases = [refusing('a', '5432,6000'), refusing('b', '15432'), refusing('c', '5432', 1000), acked('d', '1')]
  expect(portRefusedBy(5432, leases, now)).toEqual(['a'])
  const bare = { metadata: { name: 'e' }, spec: lease('e', 1, {}).spec }
  expect(portRefusedBy(5432, [bare], now)).toEqual([])
})

describe('unreachable ports', () => {
  const listing = (listed: string | undefined) =>
    lease('gateway-one', 1, listed === undefined ? {} : { [unreachableAnnotation]: listed })
  test.each<[string | undefined, string | undefined, number[]]>([
    [undefined, '5432', []],
    ['5432,5440', undefined, [5432, 5440]],
    ['5432,5440', '5432', [5440]],
    ['5432', '5432', []],
    ['0,-1,70000,x,,5432', undefined, [5432]],
    ['65535,65536,1.5,1', undefined, [65535, 1]],
  ])('of a Lease that lists %j, and listed %j before, are new: %j', (now, before, expected) => {
    expect(newlyUnreachable(listing(now), listing(before))).toEqual(expected)
  })
  test('are empty if a Lease has no annotations', () => {
    expect(newlyUnreachable({ metadata: { name: 'gateway-one' } }, { metadata: { name: 'gateway-one' } })).toEqual([])
  })
  test('are limited to 100 per Lease', () => {
    const many = Array.from({ length: 10_000 }, (_, index) => index + 1).join(',')
    expect(newlyUnreachable(listing(many), undefined)).toHaveLength(100)
  })
})
