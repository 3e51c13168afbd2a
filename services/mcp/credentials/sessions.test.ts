import { expect, test } from 'vitest'
import type { UserEntry } from './files.ts'
import { createSessions } from './sessions.ts'

const user: UserEntry = { password_hash: '', enabled: true, failed_attempts: 0 }
const day = 86_400_000

test('a session token is Base64 of 32 bytes and valid for 24 hours', () => {
  let now = 5
  const sessions = createSessions(() => now)
  const { token, expiresAt } = sessions.begin('alice', user)
  expect(Buffer.from(token, 'base64')).toHaveLength(32)
  expect(Buffer.from(token, 'base64').toString('base64')).toBe(token)
  expect(expiresAt).toBe(5 + day)
  now += day - 1
  expect(sessions.find(token)?.username).toBe('alice')
  now += 1
  expect(sessions.find(token)).toBeUndefined()
  now = 5
  expect(sessions.find(token)).toBeUndefined()
})

test("a user's logins evict only that user's oldest session", () => {
  const sessions = createSessions(() => 0)
  const first = sessions.begin('alice', user)
  const mallory = Array.from({ length: 30_000 }, () => sessions.begin('mallory', user))
  expect(sessions.find(first.token)?.username).toBe('alice')
  const valid = mallory.filter(({ token }) => sessions.find(token) !== undefined)
  expect(valid).toEqual(mallory.slice(-100))
})
