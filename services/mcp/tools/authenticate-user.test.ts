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
  abilities: new Set(),
  answers: undefined,
  progress: () => {},
  log: () => {},
}

async function call(login: Login, args: { [name: string]: string | number }) {
  const asked: unknown[] = []
  const tool = authenticateUser({
    login: async (...all) => {
      asked.push(all)
      return login
    },
  })
  const outcome = await callTool(tool, args, context)
  if (outcome.kind !== 'result') throw new Error('a result is expected')
  const [content] = outcome.result.content
  return { asked, isError: outcome.result.isError, text: content?.type === 'text' ? content.text : '' }
}

test('a login is answered with a session token, as JSON text', async () => {
  const { asked, isError, text } = await call(
    { kind: 'session', token: 'c2Vzc2lvbg==', expiresAt: Date.UTC(2030, 0, 2) },
    { username: 'alice', password: 'secret password' },
  )
  expect(asked).toEqual([['alice', 'secret password', '192.0.2.1']])
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
])('%j is a tool error', async (login, message) => {
  const { isError, text } = await call(login, { username: 'alice', password: 'secret password' })
  expect(isError).toBe(true)
  expect(text).toContain(message)
  expect(text).not.toContain('alice')
})

test('what is no text asks nobody', async () => {
  const { asked, isError } = await call({ kind: 'refused' }, { username: 'alice', password: 1 })
  expect(asked).toEqual([])
  expect(isError).toBe(true)
})

test('it is hidden, and takes no token', () => {
  expect(authenticateUser({ login: async () => ({ kind: 'refused' }) })).toMatchObject({ isHidden: true, isOpen: true })
})
