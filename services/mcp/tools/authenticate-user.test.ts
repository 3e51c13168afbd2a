import { expect, test } from 'vitest'
import type { CallContext } from '../core/call.ts'
import { anyone } from '../core/caller.ts'
import type { Login } from '../credentials/accounts.ts'
import { callTool } from '../testing/calls.ts'
import { authenticateUser } from './authenticate-user.ts'

const context: CallContext = {
  caller: { ...anyone, scopes: new Set() },
  signal: new AbortController().signal,
  requestId: '1',
  address: '192.0.2.1',
  traceparent: undefined,
  inputKinds: new Set(),
  answers: undefined,
  progress: () => {},
  log: () => {},
}

async function call(login: Login, args: { [name: string]: string | number }) {
  const logins: unknown[] = []
  const tool = authenticateUser({
    login: async (...all) => {
      logins.push(all)
      return login
    },
  })
  const outcome = await callTool(tool, args, context)
  if (outcome.kind !== 'result') throw new Error('a result is expected')
  const [content] = outcome.result.content
  return { logins, isError: outcome.result.isError, text: content?.type === 'text' ? content.text : '' }
}

test('a login returns a session token, as JSON text', async () => {
  const { logins, isError, text } = await call(
    { kind: 'session', token: 'c2Vzc2lvbg==', expiresAt: Date.UTC(2030, 0, 2) },
    { username: 'alice', password: 'secret password' },
  )
  expect(logins).toEqual([['alice', 'secret password', '192.0.2.1']])
  expect(isError).toBeUndefined()
  expect(JSON.parse(text)).toEqual({
    success: true,
    session_token: 'c2Vzc2lvbg==',
    expires_at: '2030-01-02T00:00:00.000Z',
    message: expect.stringContaining('successful'),
  })
})

test.each<[Login, string]>([
  [{ kind: 'refused' }, 'invalid username or password'],
  [{ kind: 'disabled' }, 'disabled'],
  [{ kind: 'limited', retryAfterSeconds: 60 }, 'try again in 60 seconds'],
  [{ kind: 'busy' }, 'too many logins'],
])('%j causes a tool error', async (login, message) => {
  const { isError, text } = await call(login, { username: 'alice', password: 'secret password' })
  expect(isError).toBe(true)
  expect(text).toContain(message)
  expect(text).not.toContain('alice')
})

test('arguments that are not text cause no login', async () => {
  const { logins, isError } = await call({ kind: 'refused' }, { username: 'alice', password: 1 })
  expect(logins).toEqual([])
  expect(isError).toBe(true)
})

test('the tool is hidden, and requires no token', () => {
  expect(authenticateUser({ login: async () => ({ kind: 'refused' }) })).toMatchObject({ isHidden: true, isOpen: true })
})
