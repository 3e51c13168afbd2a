import { describe, expect, test } from 'vitest'
import type { ConfigMap } from '../../cluster/kinds.ts'
import { httpRouteName, routeKey } from '../../routes/route.ts'
import { buildHosts, noHosts, withHost, withoutHost } from './table.ts'

const id = '019c1f2a-5b3c-7d4e-8f60-718293a4b5c6'
const target = { namespace: 'tenant', service: 'db-1-mcp', port: 8080 }
const mcp = { service: 'mcp', target, bridgePort: 8090, rules: ['203.0.113.7/24', '203.0.113.0/24'] }
const map = (host: string, route: object = {}): ConfigMap => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: httpRouteName(host) },
  data: {
    [routeKey]: JSON.stringify({ kind: 'http', databaseId: id, label: 'shop-1', host, services: [mcp], ...route }),
  },
})

test('a host has its services, by name and by id, with masked rules', () => {
  const { table, problems } = buildHosts([map('shop-1.db.test')])
  expect(problems).toEqual([])
  expect(table.byId.get(id)).toBe(table.byName.get('shop-1.db.test'))
  expect(table.byId.get(id)?.services.get('mcp')).toMatchObject({
    ...{ service: 'mcp', target, bridge: { ...target, port: 8090 }, rules: ['203.0.113.0/24'] },
  })
})

test('a route by port and a route of an unknown kind are neither hosts nor errors', () => {
  for (const name of ['route-5432', 'route-grpc-shop', 'route-x']) {
    const other = { ...map('x'), metadata: { name } }
    expect(buildHosts([other])).toEqual({ table: noHosts, problems: [] })
    expect(withHost(noHosts, other).table).toBe(noHosts)
  }
})

describe('an unreadable route', () => {
  const before = buildHosts([map('shop-1.db.test')]).table
  test.each([
    { services: undefined },
    { services: [{ ...mcp, rules: ['x'] }] },
    { host: 'other.db.test' },
    { more: 1 },
  ])('has no services, whatever its previous state: %j', broken => {
    const { table, problems } = withHost(before, map('shop-1.db.test', broken))
    expect(table.byName.get('shop-1.db.test')?.services.size).toBe(0)
    expect(table.byId.size).toBe(0)
    expect(problems).toEqual([expect.stringMatching(/^route-http-shop-1\.db\.test: route\.json./)])
  })
})

test("if one of a database's two hosts cannot be read, the id refers to the other host", () => {
  const both = buildHosts([map('shop-1.db.test'), map('shop-1.new.test')]).table
  for (const [deleted, remaining] of [
    ['shop-1.db.test', 'shop-1.new.test'],
    ['shop-1.new.test', 'shop-1.db.test'],
  ] as const) {
    const table = withoutHost(both, httpRouteName(deleted))
    expect([...table.byName.keys()]).toEqual([remaining])
    expect(table.byId.get(id)?.host).toBe(remaining)
  }
  expect(both.byName.size).toBe(2)
  expect(withoutHost(both, 'route-5432')).toBe(both)
})
