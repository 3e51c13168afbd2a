import { describe, expect, test } from 'vitest'
import { refusedHeader, type SiteRules } from './origin.ts'

const own: SiteRules = { origins: ['https://app.example.com'], hosts: ['mcp.example.com'] }
const open: SiteRules = { origins: [], hosts: 'any' }

describe('a server with a list of its own names', () => {
  test.each([
    [{}, undefined],
    [{ host: 'localhost:8080' }, undefined],
    [{ host: '[::1]:8080' }, undefined],
    [{ host: '10.0.0.7:8080' }, undefined],
    [{ host: 'MCP.example.com' }, undefined],
    [{ host: 'app.example.com' }, undefined],
    [{ host: 'evil.example.com' }, 'Host'],
    [{ host: 'anybody@localhost' }, 'Host'],
    [{ origin: 'https://app.example.com' }, undefined],
    [{ origin: 'https://app.example.com:8443' }, 'Origin'],
    [{ origin: 'http://app.example.com' }, 'Origin'],
    [{ origin: 'https://mcp.example.com' }, undefined],
    [{ origin: 'http://localhost:6274' }, undefined],
    [{ origin: 'http://10.0.0.7' }, 'Origin'],
    [{ origin: 'app://localhost' }, 'Origin'],
    [{ origin: 'null' }, 'Origin'],
  ] as const)('refuses %j because of %s', (headers, refused) => {
    expect(refusedHeader(headers, own)).toBe(refused)
  })
})

test('a server that accepts any Host checks only the Origin', () => {
  expect(refusedHeader({ host: 'evil.example.com' }, open)).toBeUndefined()
  expect(refusedHeader({ host: 'evil.example.com', origin: 'https://evil.example.com' }, open)).toBe('Origin')
})

test('`*` allows all origins, but no further Host', () => {
  const rules = { origins: ['*'], hosts: [] }
  expect(refusedHeader({ origin: 'https://evil.example.com' }, rules)).toBeUndefined()
  expect(refusedHeader({ origin: 'https://evil.example.com', host: 'evil.example.com' }, rules)).toBe('Host')
})
