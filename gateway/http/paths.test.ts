import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isWellFormed } from '../../routes/request-target.ts'
import { addressedPath, locationOf, serviceOf } from './paths.ts'

const id = '019c1f2a-5b3c-7d4e-8f60-718293a4b5c6'

describe('the service of a path', () => {
  test.each([
    ['/rest', 'rest', '/', '/rest'],
    ['/rest/', 'rest', '/', '/rest'],
    ['/rest?select=*', 'rest', '/?select=*', '/rest'],
    ['/rest/films?a=/mcp/v1', 'rest', '/films?a=/mcp/v1', '/rest'],
    ['/rest/mcp/v1', 'rest', '/mcp/v1', '/rest'],
    ['/rag/v1/pipelines/a%20b', 'rag', '/v1/pipelines/a%20b', '/rag'],
    ['/mcp', 'mcp-bridge', '/mcp', ''],
    ['/mcp?x', 'mcp-bridge', '/mcp?x', ''],
    ['/mcp/v1', 'mcp', '/mcp/v1', ''],
    ['/mcp/api/user/info?x=1', 'mcp', '/api/user/info?x=1', '/mcp'],
    ['/mcp/health', 'mcp', '/health', '/mcp'],
    ['/.well-known/oauth-protected-resource/mcp', 'mcp-bridge', '/.well-known/oauth-protected-resource/mcp', ''],
    ['/oauth/token', 'mcp-bridge', '/oauth/token', ''],
    ['/register', 'mcp-bridge', '/register', ''],
  ])('%s: %s, which receives %s', (sent, upstream, target, prefix) => {
    expect(isWellFormed(sent)).toBe(true)
    expect(locationOf(sent)).toEqual({ upstream, target, prefix })
  })

  test.each(['/', '/restx', '/REST', '/%72est', '/mcp/', '/mcp/v2', '/mcp/healthy', '/mcp%2Fv1', '/registered', '/x'])(
    '%s: no service',
    sent => {
      expect(locationOf(sent)).toBeUndefined()
    },
  )
})

test.each([
  ...['', 'rest', '*', 'http://other/rest', '//rest', '/rest//x', '/rest/../mcp/v1', '/rest/.', '/rest/%2e%2E/mcp'],
  ...['/rest/..%2fmcp', '/rest/x%5C..%5cmcp', '/rest\\x', '/rest/\u00e9', '/rest/a b', '/rest#x', '/rest?#', '/rest\n'],
])('the target %j is malformed', sent => {
  expect(isWellFormed(sent)).toBe(false)
})

test('dots and slashes in a query, and dots within a name, are well-formed', () => {
  expect(['/rest?a=..//x', '/rest/a..b', '/rest/...', '/rest/a%2Fb'].every(isWellFormed)).toBe(true)
})

test.each([
  [`/${id}/rest/films?x`, { database: id, target: '/rest/films?x', prefix: `/${id}` }],
  [`/${id}`, { database: id, target: '/', prefix: `/${id}` }],
  [`/${id}?x`, { database: id, target: '/?x', prefix: `/${id}` }],
  [`/${id.toUpperCase()}/rest`, undefined],
  [`/x/${id}/rest`, undefined],
  [`/.well-known/a/${id}/mcp`, { database: id, target: `/.well-known/a/${id}/mcp`, prefix: '' }],
])('at the address of the gateway, %s', (sent, expected) => {
  expect(addressedPath(sent)).toEqual(expected)
})

/** Paths with segments that servers read in different ways. */
const piece = fc.constantFrom(
  ...['/', '//', '.', '..', '%2e', '%2F', '%5c', '\\', 'rest', 'rag', 'mcp', 'v1', 'api', 'health', 'oauth'],
  ...['.well-known', 'register', '?', '%', '%25', '%00', ';', 'x', id, '\0', '\u00e9'],
)
const sent = fc.array(piece, { maxLength: 12 }).map(pieces => `/${pieces.join('')}`)

/** The path as a lenient server reads it: it decodes, treats both slashes alike, and removes empty and dot segments. */
function generously(path: string): string[] {
  const segments: string[] = []
  for (const segment of path.replace(/%2e/gi, '.').replace(/%2f/gi, '/').replace(/%5c/gi, '\\').split(/[/\\]/)) {
    if (segment === '..') segments.pop()
    else if (segment !== '' && segment !== '.') segments.push(segment)
  }
  return segments
}

test('a lenient server never reads a well-formed path as that of another service, and the path is forwarded unchanged', () => {
  fc.assert(
    fc.property(sent, target => {
      if (!isWellFormed(target)) return
      const location = locationOf(target)
      if (location === undefined) return
      expect([`${location.prefix}${location.target}`, `${location.prefix}${location.target.slice(1)}`]).toContain(
        target,
      )
      const read = generously(target.split('?')[0] ?? '')
      const other = locationOf(`/${read.join('/')}`)
      // With encoded slashes, a path may match no service, but never another service.
      expect([serviceOf(location.upstream), undefined]).toContain(other && serviceOf(other.upstream))
    }),
    { numRuns: 3_000 },
  )
})
