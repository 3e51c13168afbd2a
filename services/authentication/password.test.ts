import { randomBytes, scryptSync } from 'node:crypto'
import { expect, test } from 'vitest'
import { hashPassword, isPassword, isPasswordHash } from './password.ts'
import { quickHash } from './testing/passwords.ts'

test('a password matches only its own hash, and two hashes of one password differ', async () => {
  const [one, two] = await Promise.all([hashPassword('correct horse'), quickHash('correct horse')])
  expect(one).toMatch(/^\$scrypt\$ln=14,r=8,p=5\$/)
  expect(one).not.toBe(await quickHash('correct horse'))
  expect(await isPassword('correct horse', one)).toBe(true)
  expect(await isPassword('correct horse', two)).toBe(true)
  expect(await isPassword('correct horsf', two)).toBe(false)
  expect(await isPassword('', two)).toBe(false)
})

test("a password's letters can be in composed or decomposed Unicode form", async () => {
  expect(await isPassword('Zu\u0308rich-see', await quickHash('Z\u00fcrich-see'))).toBe(true)
})

test("a hash made by an older bridge is accepted, with the password's original Unicode form", async () => {
  const salt = randomBytes(16)
  const hash = scryptSync('\ufb01ne horse'.normalize('NFKC'), salt, 32, { N: 1_024, r: 8, p: 1 })
  const former = `scrypt$1024$8$1$${salt.toString('base64url')}$${hash.toString('base64url')}`
  expect(isPasswordHash(former)).toBe(true)
  expect(await isPassword('\ufb01ne horse', former)).toBe(true)
  expect(await isPassword('fine horse', former)).toBe(true)
  expect(await isPassword('fine horsf', former)).toBe(false)
  for (const wrong of ['1023', '0', '1073741824']) expect(isPasswordHash(former.replace('1024', wrong))).toBe(false)
})

test("another user's password is refused in the same time", async () => {
  const another = await quickHash('of another')
  expect(await isPassword('of another', undefined, another)).toBe(false)
  const took = async (...args: Parameters<typeof isPassword>) => {
    const from = performance.now()
    await isPassword(...args)
    return performance.now() - from
  }
  expect(await took('x', undefined, another)).toBeLessThan((await took('x', undefined)) / 2)
})

test('an unknown user is refused in the same time', async () => {
  expect(await isPassword('', undefined)).toBe(false)
  expect(await isPassword('x', 'no hash at all')).toBe(false)
})

test.each([
  '',
  '$2b$12$abcdefghijklmnopqrstuvabcdefghijklmnopqrstuvabcdefghijklmnopqr',
  `$scrypt$ln=30,r=8,p=1$${'a'.repeat(22)}$${'a'.repeat(43)}`,
  `$scrypt$ln=14,r=8,p=99$${'a'.repeat(22)}$${'a'.repeat(43)}`,
  `$scrypt$ln=0,r=8,p=1$${'a'.repeat(22)}$${'a'.repeat(43)}`,
])('%j is not a valid hash, or would be too expensive', text => {
  expect(isPasswordHash(text)).toBe(false)
})

test('many concurrent logins do not block the event loop', async () => {
  const began = performance.now()
  let longest = 0
  let last = began
  const note = () => {
    const now = performance.now()
    longest = Math.max(longest, now - last)
    last = now
  }
  const beat = setInterval(note, 5)
  await Promise.all(Array.from({ length: 4 }, () => isPassword('wrong', undefined)))
  note()
  clearInterval(beat)
  expect(longest).toBeLessThan((performance.now() - began) / 2)
})

test('too many concurrent logins are refused, and the error is `busy`', async () => {
  const hash = await quickHash('some password')
  const all = await Promise.allSettled(Array.from({ length: 200 }, () => isPassword('wrong', hash)))
  const refused = all.filter(({ status }) => status === 'rejected')
  expect(refused.length).toBeGreaterThan(50)
  expect(refused[0]).toHaveProperty('reason.name', 'PasswordsBusy')
  expect(all.length - refused.length).toBeGreaterThan(50)
})
