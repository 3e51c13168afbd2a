import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { httpRouteName, routeKey } from '../../routes/route.ts'
import { decideRequest, type HttpRequestFacts, hostNameOf } from './decision.ts'
import { buildHosts } from './table.ts'

const id = '019c1f2a-5b3c-7d4e-8f60-718293a4b5c6'
const host = 'shop-1.db.test'
const target = (service: string, port: number) => ({ namespace: 'tenant', service, port })
const rules = ['203.0.113.0/24']
const services = [
  { service: 'mcp', target: target('db-1-mcp', 8080), bridgePort: 8090, rules },
  { service: 'rest', target: target('db-1-rest', 3000), rules, unavailable: 'suspended' },
  {
    ...{ service: 'rag', target: target('db-1-rag', 8081), rules },
    tokenDigest: createHash('sha256').update('secret').digest('hex'),
  },
]
const routeMap = (name: string, databaseId: string, of: object[]) => ({
  ...{ apiVersion: 'v1' as const, kind: 'ConfigMap' as const, metadata: { name: httpRouteName(name) } },
  data: { [routeKey]: JSON.stringify({ kind: 'http', databaseId, label: name, host: name, services: of }) },
})
const { table } = buildHosts([
  routeMap(host, id, services),
  routeMap('other-1.db.test', '019c1f2a-5b3c-7d4e-8f60-718293a4b5c7', [
    { service: 'mcp', target: target('db-2-mcp', 8080), rules: [] },
    { service: 'rag', target: target('db-2-rag', 8081), rules },
  ]),
])
const decisionOn = (facts: Partial<HttpRequestFacts>) =>
  decideRequest(table, new Set(['localhost']), {
    ...{ host, sni: undefined, target: '/mcp', address: '203.0.113.7', authorization: undefined },
    isPreflight: false,
    ...facts,
  })
const statusOf = (facts: Partial<HttpRequestFacts>) => {
  const decision = decisionOn(facts)
  return decision.kind === 'refuse' ? decision.refusal.status : 200
}

describe('requests', () => {
  test.each<[number, string, Partial<HttpRequestFacts>]>([
    [200, 'by the host name', {}],
    [200, 'by the host name in capitals, with a port and a final dot', { host: 'SHOP-1.db.test.:8443' }],
    [200, 'by the name of the TLS connection', { sni: 'SHOP-1.db.test' }],
    [421, 'of another name than the TLS connection', { sni: 'other-1.db.test' }],
    [421, 'by address over a TLS connection with a name', { host: '127.0.0.1', sni: host, target: `/${id}/mcp` }],
    [200, 'by address, with the id', { host: '127.0.0.1:8443', target: `/${id}/mcp` }],
    [200, 'by IPv6 address, with the id', { host: '[::1]:8443', target: `/${id}/mcp` }],
    [200, 'by a name of the gateway, with the id', { host: 'localhost', sni: 'localhost', target: `/${id}/mcp` }],
    [404, 'by address, without an id', { host: '127.0.0.1' }],
    [404, 'by an unknown name, with the id', { host: 'rebound.test', target: `/${id}/mcp` }],
    [404, 'by the host name, with the id', { target: `/${id}/mcp` }],
    [400, 'without a host', { host: undefined }],
    [400, 'of a malformed host', { host: 'shop-1.db.test@evil' }],
    [400, 'with a malformed path', { target: '/rest/../mcp' }],
    [404, 'of no service', { target: '/grpc' }],
    [404, 'of a service that the database does not have', { host: 'other-1.db.test', target: '/rest' }],
    [403, 'from outside', { address: '198.51.100.1' }],
    [403, 'from an IPv6 address', { address: '2001:db8::1' }],
    [403, 'of a service without rules', { host: 'other-1.db.test' }],
    [503, 'of a suspended database', { target: '/rest/films' }],
    [403, 'of a suspended database, from outside', { target: '/rest/films', address: '198.51.100.1' }],
    [401, 'of rag without a token', { target: '/rag/x' }],
    [401, 'of rag with a wrong token', { target: '/rag/x', authorization: 'Bearer wrong' }],
    [401, 'of rag with a token of another scheme', { target: '/rag/x', authorization: 'Basic secret' }],
    [200, 'of rag with the token', { target: '/rag/x', authorization: 'bearer secret' }],
    [401, 'of rag without a digest', { host: 'other-1.db.test', target: '/rag/x', authorization: 'Bearer secret' }],
    [
      403,
      'of rag with the token, from outside',
      { target: '/rag', authorization: 'Bearer secret', address: '9.9.9.9' },
    ],
  ])('get %i: %s', (status, _, facts) => {
    expect(statusOf(facts)).toBe(status)
  })
})

test('requests for the tool server and its bridge go to their ports, and the prefix contains the id', () => {
  expect(decisionOn({ target: '/mcp' })).toMatchObject({ label: host, target: target('db-1-mcp', 8090) })
  expect(decisionOn({ target: '/mcp/v1' })).toMatchObject({ target: target('db-1-mcp', 8080) })
  expect(decisionOn({ host: '127.0.0.1', target: `/${id}/mcp/api/x?y` })).toMatchObject({
    location: { target: '/api/x?y', prefix: `/${id}/mcp` },
  })
  expect(statusOf({ host: 'other-1.db.test', target: '/mcp' })).toBe(403)
})

test('a refusal never repeats a token', () => {
  const decision = JSON.stringify(decisionOn({ target: '/rag/x', authorization: 'Bearer not-this' }))
  expect(decision).toContain('WWW-Authenticate'.toLowerCase())
  expect(decision).not.toContain('not-this')
})

test.each([
  ['db.test', 'db.test'],
  ['[::1]:1', '[::1]'],
  ['a:b:1', undefined],
  ['a b', undefined],
  ['', undefined],
  ['a/b', undefined],
  ['x'.repeat(300), undefined],
])('the host %j is %j', (text, name) => {
  expect(hostNameOf(text)).toBe(name)
})
