import { describe, expect, test } from 'vitest'
import {
  acknowledged,
  acknowledgedAnnotation,
  type GatewayLease,
  gatewayClockSkewSeconds,
  gatewayLeaseSeconds,
  newlyUnreachable,
  portRefusedBy,
  portsInUseAnnotation,
  unreachableAnnotation,
} from './route.ts'

const now = Date.parse('2026-01-01T00:00:00Z')
const lease = (name: string, ageSeconds: number, annotations: Record<string, string>): GatewayLease => ({
  metadata: { name, annotations },
  spec: { renewTime: new Date(now - ageSeconds * 1000).toISOString() },
})
const acked = (name: string, version: string, ageSeconds = 1) =>
  lease(name, ageSeconds, { [acknowledgedAnnotation]: version })

describe('acknowledged', () => {
  test.each<[string, string, GatewayLease[], boolean, string[]]>([
    ['every live gateway at or above the version', '100', [acked('a', '100'), acked('b', '101')], true, []],
    ['one below', '100', [acked('a', '100'), acked('b', '99')], false, ['b']],
    ['versions are numbers, not text', '99', [acked('a', '100')], true, []],
    ['versions beyond what a double can hold', '9007199254740993', [acked('a', '9007199254740992')], false, ['a']],
    ['no gateway', '1', [], false, []],
    ['only an expired gateway', '1', [acked('a', '5', gatewayLeaseSeconds + gatewayClockSkewSeconds)], false, []],
    ['an expired gateway is not waited for', '5', [acked('a', '5'), acked('b', '1', 1000)], true, []],
    ['one that refuses is still waited for a moment', '5', [acked('a', '5'), acked('b', '1', 95)], false, ['b']],
    ['a clock that runs ahead is live', '5', [acked('a', '1', -30)], false, ['a']],
    ['a gateway that has announced itself only', '5', [lease('a', 1, {})], false, ['a']],
    ['an annotation that is no version', '5', [acked('a', '10x')], false, ['a']],
    ['a wanted version that is none', '', [acked('a', '10')], false, ['a']],
    ['a lease without a time is not live', '5', [{ metadata: { name: 'a' } }], false, []],
  ])('%s', (_name, version, leases, done, waitingFor) => {
    expect(acknowledged(version, leases, now)).toEqual({ done, waitingFor })
  })
})

test('portRefusedBy names the live gateways that could not bind the port', () => {
  const refusing = (name: string, ports: string, age = 1) => lease(name, age, { [portsInUseAnnotation]: ports })
  const leases = [refusing('a', '5432,6000'), refusing('b', '15432'), refusing('c', '5432', 1000), acked('d', '1')]
  expect(portRefusedBy(5432, leases, now)).toEqual(['a'])
})

describe('ports out of reach', () => {
  const listing = (listed: string | undefined) =>
    lease('gateway-one', 1, listed === undefined ? {} : { [unreachableAnnotation]: listed })
  test.each<[string | undefined, string | undefined, number[]]>([
    [undefined, '5432', []],
    ['5432,5440', undefined, [5432, 5440]],
    ['5432,5440', '5432', [5440]],
    ['5432', '5432', []],
    ['0,-1,70000,x,,5432', undefined, [5432]],
  ])('%j after %j are news of %j', (now, before, expected) => {
    expect(newlyUnreachable(listing(now), listing(before))).toEqual(expected)
  })
  test('are read up to a bound', () => {
    const many = Array.from({ length: 10_000 }, (_, index) => index + 1).join(',')
    expect(newlyUnreachable(listing(many), undefined)).toHaveLength(100)
  })
})
