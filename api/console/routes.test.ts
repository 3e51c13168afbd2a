/** The console's files, over a real socket, because `inject` would normalize paths. */
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { type IncomingHttpHeaders, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { brotliCompressSync, brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { configurationOf, type Harness, secret, startHarness } from '../testing/harness.ts'

const page = '<!doctype html><title>Console</title>'
const program = 'console.log("a program")\n'.repeat(20)
const outside = 'a secret outside the directory'

let root: string
let directory: string
let harness: Harness
let port: number
let now = Date.now()

const login = { clientId: 'console', origins: ['https://tokens.example.com'] }
const authentication = { sharedSecret: secret, issuer: 'https://login.example.com/realm', audience: 'espalier' }

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'espalier-console-'))
  directory = join(root, 'dist')
  await mkdir(join(directory, 'assets'), { recursive: true })
  await writeFile(join(root, 'secret.txt'), outside)
  await writeFile(join(directory, 'index.html'), page)
  await writeFile(join(directory, 'favicon.svg'), '<svg/>')
  await writeFile(join(directory, 'assets/main-abc123.js'), program)
  await writeFile(join(directory, 'assets/main-abc123.js.br'), brotliCompressSync(program))
  await writeFile(join(directory, 'assets/main-abc123.js.gz'), gzipSync(program))
  await writeFile(join(directory, 'assets/only-abc123.css'), 'a {}')
  await writeFile(join(directory, 'assets/only-abc123.css.gz'), gzipSync('a {}'))
  await writeFile(join(directory, 'assets/plain.js'), program)
  await symlink('../../secret.txt', join(directory, 'assets/plain.js.br'))
  await symlink('../../secret.txt', join(directory, 'assets/link.js'))
  await symlink('../secret.txt', join(directory, 'link.txt'))
  await symlink('..', join(directory, 'assets/up'))
  await symlink(root, join(directory, 'out'))
  harness = await startHarness({
    configuration: configurationOf({ authentication, login }),
    consoleDirectory: directory,
    now: () => now,
  })
  await harness.app.listen({ host: '127.0.0.1', port: 0 })
  port = (harness.app.server.address() as AddressInfo).port
})
afterAll(async () => {
  await harness?.close()
  await rm(root, { recursive: true, force: true })
})

type Answer = { status: number; headers: IncomingHttpHeaders; body: Buffer; text: string }

/** Sends the path unchanged. */
const get = (path: string, headers: Record<string, string> = {}, method = 'GET', at = port): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port: at, path, method, headers, agent: false }, response => {
      const chunks: Buffer[] = []
      response.on('data', chunk => chunks.push(chunk))
      response.on('end', () => {
        const body = Buffer.concat(chunks)
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body, text: body.toString() })
      })
      response.on('error', reject)
    })
    sent.on('error', reject).end()
  })

const asset = '/console/assets/main-abc123.js'

describe('pages', () => {
  test.each(['/console', '/console/', '/console?code=1', '/console/databases/1/branches/2', '/console/index.html'])(
    '%s returns the console without a token, and must be revalidated',
    async path => {
      const { status, headers, text } = await get(path)
      expect({ status, text }).toEqual({ status: 200, text: page })
      expect(headers).toMatchObject({ 'cache-control': 'no-cache', 'content-type': 'text/html; charset=utf-8' })
    },
  )

  test('a path of several hundred characters returns the page, too', async () => {
    expect(await get(`/console/${'a/'.repeat(200)}${'b'.repeat(400)}`)).toMatchObject({ status: 200, text: page })
  })

  test('the page limits what scripts and other sites can do', async () => {
    const { headers } = await get('/console/')
    expect(headers).toMatchObject({
      'content-security-policy':
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self' https://login.example.com https://tokens.example.com; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-resource-policy': 'same-origin',
      'permissions-policy': expect.stringContaining('camera=()'),
      'x-request-id': expect.any(String),
    })
  })

  test('an unchanged page causes a 304; a new build of the same length and time does not', async () => {
    const { etag = '' } = (await get('/console/')).headers
    expect(etag).toMatch(/^W\/"[\w-]{27}"$/)
    const again = await get('/console/databases', { 'if-none-match': etag })
    expect(again).toMatchObject({ status: 304, text: '', headers: { etag } })
    expect(again.headers['content-security-policy']).toBeDefined()
    await writeFile(join(directory, 'index.html'), page.replace('Console', 'Conzole'))
    now += 2_000
    const renewed = await get('/console/', { 'if-none-match': etag })
    expect(renewed).toMatchObject({ status: 200, text: page.replace('Console', 'Conzole') })
    await writeFile(join(directory, 'index.html'), page)
    now += 2_000
  })

  test('`/` leads to the console', async () => {
    expect(await get('/')).toMatchObject({ status: 302, headers: { location: '/console/' } })
  })

  test('serves a file at the top, which must be revalidated', async () => {
    const { status, headers, text } = await get('/console/favicon.svg')
    expect({ status, text }).toEqual({ status: 200, text: '<svg/>' })
    expect(headers).toMatchObject({ 'content-type': 'image/svg+xml', 'cache-control': 'no-cache' })
  })
})

describe('assets', () => {
  test('are cached for a year', async () => {
    const { status, headers, text } = await get(asset)
    expect({ status, text }).toEqual({ status: 200, text: program })
    expect(headers).toMatchObject({
      'cache-control': 'public, max-age=31536000, immutable',
      'content-type': 'application/javascript; charset=utf-8',
      'content-length': String(program.length),
      'x-content-type-options': 'nosniff',
      vary: expect.stringMatching(/accept-encoding/i),
    })
    expect(headers['content-encoding']).toBeUndefined()
    expect(headers.etag).toBeUndefined()
  })

  test.each([
    ['br, gzip', 'br'],
    ['gzip, deflate, br;q=1.0', 'br'],
    ['gzip', 'gzip'],
    ['gzip, br;q=0', 'gzip'],
    ['br;q=0.1, gzip;q=0.9', 'gzip'],
    ['zstd', undefined],
    ['identity', undefined],
    ['', undefined],
  ])('Accept-Encoding %j chooses %s', async (accepted, encoding) => {
    const { status, headers, body } = await get(asset, { 'accept-encoding': accepted })
    expect({ status, encoding: headers['content-encoding'] }).toEqual({ status: 200, encoding })
    const read = encoding === 'br' ? brotliDecompressSync : encoding === 'gzip' ? gunzipSync : (all: Buffer) => all
    expect(read(body).toString()).toBe(program)
    expect(headers['content-type']).toBe('application/javascript; charset=utf-8')
    expect(headers['content-length']).toBe(String(body.length))
  })

  test('sends another encoding if the preferred encoding was not built', async () => {
    const { headers, body } = await get('/console/assets/only-abc123.css', { 'accept-encoding': 'br, gzip' })
    expect(headers).toMatchObject({ 'content-encoding': 'gzip', 'content-type': 'text/css; charset=utf-8' })
    expect(gunzipSync(body).toString()).toBe('a {}')
  })

  test('HEAD has the headers of GET and no body', async () => {
    const { status, headers, text } = await get(asset, { 'accept-encoding': 'gzip' }, 'HEAD')
    expect({ status, text }).toEqual({ status: 200, text: '' })
    expect(headers).toMatchObject({
      'content-encoding': 'gzip',
      'content-length': String(gzipSync(program).length),
      'content-security-policy': expect.any(String),
    })
  })

  test('answers a range with the whole file', async () => {
    expect(await get(asset, { range: 'bytes=0-3' })).toMatchObject({ status: 200, text: program })
  })

  test('a missing asset causes a 404 in JSON, not the page', async () => {
    const { status, headers, text } = await get('/console/assets/main-old.js')
    expect({ status, body: JSON.parse(text) }).toEqual({ status: 404, body: { code: 404, message: 'file not found' } })
    expect(headers['content-security-policy']).toBeDefined()
    expect(headers['cache-control']).toBe('no-store')
  })
})

describe('nothing outside the directory is served', () => {
  const up = ['..', '%2e%2e', '.%2e', '%2E.', '..%2f', '%2e%2e%2f', '..%5c', '%252e%252e', '....//', '..%00']
  const paths = up.flatMap(step => [
    `/console/${step}/secret.txt`,
    `/console/assets/${step}/${step}/secret.txt`,
    `/console/assets/${step}/../secret.txt`,
    `/console/${step}secret.txt`,
  ])
  const others = [
    '/console/assets/link.js',
    '/console/link.txt',
    '/console/out/secret.txt',
    '/console/assets/up/secret.txt',
    '/console/assets/up/../secret.txt',
    '/console//etc/passwd',
    '/console/%2fetc/passwd',
    `/console/${'/'.repeat(3)}etc/passwd`,
    '/console/assets/%00',
    '/console/%zz',
    '/console/assets/main-abc123.js%00.css',
    '/console/assets/',
    '/console/assets',
  ]
  test.each([...paths, ...others])('%s', async path => {
    const { status, text } = await get(path)
    expect([200, 400, 404]).toContain(status)
    expect(text).not.toContain(outside)
    expect(text).not.toContain('root:')
    if (status === 200) expect(text).toBe(page)
  })

  test('does not send a compressed copy that is a symlink', async () => {
    const answer = await get('/console/assets/plain.js', { 'accept-encoding': 'br' })
    expect(answer).toMatchObject({ status: 404, headers: { 'cache-control': 'no-store' } })
    expect(answer.text).not.toContain(outside)
    expect(await get('/console/assets/plain.js')).toMatchObject({ status: 200, text: program })
  })

  test('a compressed copy has no own address', async () => {
    expect((await get(`${asset}.br`)).status).toBe(404)
  })
})

test('other methods cause a 405, and no body is read', async () => {
  const answer = await get('/console/', { 'content-length': '10485760' }, 'POST')
  expect(answer).toMatchObject({ status: 405, headers: { allow: expect.stringMatching(/^(GET, HEAD|HEAD, GET)$/) } })
})

test('the routes of the API still need a token', async () => {
  expect((await get('/managed/v1/databases')).status).toBe(401)
  expect((await get('/console/../managed/v1/databases')).text).not.toContain('[')
})

test('without a built console, the path explains this, and `/` leads to the documentation', async () => {
  const empty = await startHarness({ consoleDirectory: join(root, 'none') })
  try {
    for (const url of ['/console', '/console/', '/console/assets/x.js']) {
      const { statusCode, body } = await empty.app.inject({ url })
      expect({ statusCode, body: JSON.parse(body) }).toEqual({
        statusCode: 404,
        body: { code: 404, message: 'this installation has no console: `make console` builds it' },
      })
    }
    expect((await empty.app.inject({ url: '/' })).headers.location).toBe('/docs')
  } finally {
    await empty.close()
  }
})

test('serves a console that was built after the start', async () => {
  let time = Date.now()
  const later = join(root, 'later')
  const started = await startHarness({ consoleDirectory: later, now: () => time })
  try {
    expect((await started.app.inject({ url: '/console/' })).statusCode).toBe(404)
    await mkdir(later)
    await writeFile(join(later, 'index.html'), page)
    time += 2_000
    const { headers, body } = await started.app.inject({ url: '/console/' })
    expect(body).toBe(page)
    expect(headers['content-security-policy']).toContain("connect-src 'self';")
  } finally {
    await started.close()
  }
})
