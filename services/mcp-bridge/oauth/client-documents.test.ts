/** Client ID metadata documents: how the server fetches and checks them. Also tests the allowed redirect addresses. */
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createAuthority, issueServerCertificate } from '../../../operator/pki/index.ts'
import { isPublicAddress } from './addresses.ts'
import { ClientDocuments, isDocumentId, type Outside } from './client-documents.ts'
import { isAllowedRedirect, isRedirectUri, matchesRedirectUri, usualRedirectUris } from './redirect.ts'

const redirect_uris = ['https://app.example.com/callback']
let server: Server
let origin = ''
let outside: Outside
let paths: string[] = []
beforeAll(async () => {
  const authority = createAuthority()
  const certificate = issueServerCertificate(authority, { dnsNames: ['app.example.com'] })
  server = createServer(certificate, (request, response) => {
    const path = request.url ?? ''
    paths.push(path)
    const client_id = `${origin}${path}`
    const good = { client_id, client_name: 'App', redirect_uris }
    const send = (value: unknown, type = 'application/json') =>
      response.writeHead(200, { 'Content-Type': type, 'Cache-Control': 'max-age=600' }).end(JSON.stringify(value))
    if (path.startsWith('/good')) send(good)
    else if (path === '/other-id') send({ ...good, client_id: `${origin}/good` })
    else if (path === '/secret') send({ ...good, client_secret: 'x' })
    else if (path === '/http') send({ ...good, redirect_uris: ['http://app.example.com/'] })
    else if (path === '/html') send(good, 'text/html')
    else if (path === '/large') send({ ...good, padding: 'x'.repeat(5_200) })
    else if (path === '/moved') response.writeHead(302, { Location: `${origin}/good` }).end()
    else if (path === '/nonsense') response.writeHead(200, { 'Content-Type': 'application/json' }).end('{')
    else response.writeHead(404).end()
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  origin = `https://app.example.com:${(server.address() as AddressInfo).port}` // a TCP server has such an address
  outside = {
    resolve: async () => [{ address: '127.0.0.1', family: 4 }],
    isPublic: address => address === '127.0.0.1',
    authority: authority.cert,
  }
})
afterAll(() => new Promise(resolve => server.close(resolve)))

test('fetches a document from the checked address, and caches it', async () => {
  const documents = new ClientDocuments(outside)
  paths = []
  const expected = { clientName: 'App', redirectUris: redirect_uris }
  expect(await documents.get(`${origin}/good`, 'somebody')).toEqual(expected)
  expect(await documents.get(`${origin}/good`, 'somebody')).toEqual(expected)
  expect(paths).toEqual(['/good'])
})

test.each([
  ['/other-id', /names another client_id/],
  ['/secret', /invalid client_secret/],
  ['/http', /neither https, nor loopback/],
  ['/html', /is not JSON/],
  ['/large', /larger than 5120/],
  ['/moved', /status 302/],
  ['/nonsense', /not valid JSON/],
  ['/missing', /status 404/],
])('%s is refused', async (path, problem) => {
  await expect(new ClientDocuments(outside).get(`${origin}${path}`, 'somebody')).rejects.toThrow(problem)
})

test('silent name servers block at most two threads', async () => {
  let answer = (_: readonly { address: string; family: number }[]) => {}
  const silent = new Promise<readonly { address: string; family: number }[]>(resolve => {
    answer = resolve
  })
  let lookups = 0
  const resolve = () => {
    lookups += 1
    return silent
  }
  const documents = new ClientDocuments({ ...outside, resolve })
  const first = documents.get(`${origin}/good1`, 'somebody')
  await expect(documents.get(`${origin}/good2`, 'somebody')).rejects.toThrow('too many clients')
  const waiting = [first, documents.get(`${origin}/good2`, 'another')]
  await expect(documents.get(`${origin}/good3`, 'a third')).rejects.toThrow('too many clients')
  expect(lookups).toBe(2)
  answer([{ address: '127.0.0.1', family: 4 }])
  expect(await Promise.all(waiting)).toHaveLength(2)
  expect(await documents.get(`${origin}/good3`, 'somebody')).toMatchObject({ clientName: 'App' })
})

test('sends no request to a name with a non-public address', async () => {
  paths = []
  const mixed = { ...outside, resolve: async () => ['127.0.0.1', '10.0.0.1'].map(address => ({ address, family: 4 })) }
  await expect(new ClientDocuments(mixed).get(`${origin}/good`, 'somebody')).rejects.toThrow(/not public/)
  await expect(
    new ClientDocuments({ ...outside, isPublic: isPublicAddress }).get(`${origin}/good`, 'somebody'),
  ).rejects.toThrow(/not public/)
  await expect(new ClientDocuments(outside).get('https://[::1]/good', 'somebody')).rejects.toThrow(/not public/)
  expect(paths).toEqual([])
})

test('an id is an https address with a path, in its normal form', () => {
  expect(isDocumentId('https://app.example.com/client.json')).toBe(true)
  const wrong = [
    'http://a.b/c',
    'https://a.b',
    'https://a.b/',
    'https://u@a.b/c',
    'https://a.b/c#d',
    'https://a.b/x/../c',
    'https://A.b/c',
    'dyn-1',
  ]
  expect(wrong.filter(isDocumentId)).toEqual([])
})

describe('addresses', () => {
  test.each([
    '0.0.0.0',
    '10.1.2.3',
    '100.64.0.1',
    '127.0.0.1',
    '169.254.169.254',
    '172.31.0.1',
    '192.168.0.1',
    '224.0.0.1',
    '255.255.255.255',
  ])('%s is not public', address => expect(isPublicAddress(address)).toBe(false))
  test.each([
    '::',
    '::1',
    '::ffff:8.8.8.8',
    'fe80::1',
    'fc00::1',
    'ff02::1',
    '64:ff9b::7f00:1',
    '2002:7f00:1::',
    '2001:db8::1',
    'name',
    '',
  ])('%s is not public', address => expect(isPublicAddress(address)).toBe(false))
  test.each(['8.8.8.8', '172.32.0.1', '2606:4700::1111'])('%s is public', address =>
    expect(isPublicAddress(address)).toBe(true),
  )
})

describe('the redirect address of a client', () => {
  test('must equal a registered address exactly', () => {
    const character = fc.constantFrom(...'abc./:@?#%-0\\ '.split(''))
    const change = fc.tuple(fc.nat(40), character)
    const registered = 'https://app.example.com/callback?x=1'
    fc.assert(
      fc.property(change, ([at, inserted]) => {
        const changed = registered.slice(0, at) + inserted + registered.slice(at)
        expect(matchesRedirectUri(changed, [registered])).toBe(false)
      }),
    )
    expect(matchesRedirectUri(registered, [registered])).toBe(true)
  })

  test('may have any port on loopback, with no other difference', () => {
    const registered = ['http://127.0.0.1/callback']
    const port = fc.integer({ min: 1, max: 65_535 })
    fc.assert(fc.property(port, one => matchesRedirectUri(`http://127.0.0.1:${one}/callback`, registered)))
    for (const wrong of [
      'http://localhost:1/callback',
      'https://127.0.0.1:1/callback',
      'http://127.0.0.1:1/',
      'http://127.0.0.1.evil.com/callback',
    ])
      expect(matchesRedirectUri(wrong, registered)).toBe(false)
  })

  test('redirect addresses', () => {
    const allowed = (uri: string, own?: string) => isAllowedRedirect(uri, usualRedirectUris, own)
    for (const uri of [
      'https://claude.ai/api/mcp/auth_callback',
      'cursor://anysphere.cursor-mcp/oauth/callback',
      'https://www.cursor.com/agents/mcp/oauth/callback',
      'http://127.0.0.1:33418/any',
      'http://[::1]/callback',
    ])
      expect(allowed(uri), uri).toBe(true)
    for (const uri of [
      'https://evil.example/callback',
      'https://claude.ai/other',
      'https://claude.ai.evil.example/api/mcp/auth_callback',
      'cursor://other/oauth/callback',
      'com.example.app:/callback',
      'loopback',
      'javascript:alert(1)',
    ])
      expect(allowed(uri), uri).toBe(false)
    expect(allowed('https://app.example.com/callback', 'https://app.example.com')).toBe(true)
    expect(allowed('https://app.example.com:8443/callback', 'https://app.example.com')).toBe(false)
    expect(isAllowedRedirect('com.example.app:/callback', ['com.example.app:/callback'])).toBe(true)
    expect(isAllowedRedirect('http://127.0.0.1:1/a', ['http://127.0.0.1/b'])).toBe(false)
  })

  test('are https, loopback or have a private scheme, without fragment or credentials', () => {
    const wrong = [
      'http://example.com/',
      'https://a.b/#c',
      'https://u:p@a.b/',
      'javascript:alert(1)',
      'data:text/html,x',
      'file:///etc/passwd',
      'ms-settings:network',
      'cursor://a/b#c',
      '//a.b',
      'https://a.b/ c',
    ]
    expect(wrong.filter(isRedirectUri)).toEqual([])
  })
})
