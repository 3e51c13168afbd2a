import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { checkProfileName, profilesPath, readProfile, readProfiles, withProfiles, writeProfiles } from './profiles.ts'
import { readTarget } from './target.ts'

let directory: string
let environment: NodeJS.ProcessEnv
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'espalier-profiles-'))
  environment = { XDG_CONFIG_HOME: join(directory, 'config'), ESPALIER_HOME: join(directory, 'none') }
})
afterEach(() => rmSync(directory, { recursive: true, force: true }))

const work = { api: 'https://api.example.com', token: 'a.b.c' }
const test1 = { api: 'http://127.0.0.1:8080', token: 'd.e.f' }

test('only the user can read the file, and a write leaves no temporary file', async () => {
  await writeProfiles(environment, { current: 'work', profiles: { work, test: test1 } })
  const path = profilesPath(environment)
  expect(statSync(path).mode & 0o777).toBe(0o600)
  expect(statSync(dirname(path)).mode & 0o777).toBe(0o700)
  expect(readdirSync(dirname(path))).toEqual(['profiles.json'])
  expect(await readProfiles(environment)).toEqual({ current: 'work', profiles: { work, test: test1 } })
  await expect(writeProfiles({ XDG_CONFIG_HOME: '/proc/none' }, { profiles: {} })).rejects.toThrow('XDG_CONFIG_HOME')
})

test('refuses a file that other users can read, and a file with invalid content', async () => {
  await writeProfiles(environment, { profiles: { work } })
  const path = profilesPath(environment)
  chmodSync(path, 0o644)
  await expect(readProfiles(environment)).rejects.toThrow(`chmod 600 ${path}`)
  chmodSync(path, 0o600)
  writeFileSync(path, '{"profiles": {"work": {"api": "javascript:1", "token": "secret"}}}')
  const failure = await readProfiles(environment).catch(error => error)
  expect(failure.message).toContain('is not a valid profiles file')
  expect(failure.message).not.toContain('secret')
})

test.each(['', '-x', 'a b', '../x', 'local', 'x'.repeat(64), '__proto__/'])('%j is not a valid profile name', name => {
  expect(() => checkProfileName(name)).toThrow('--profile')
})

test('the flag overrides the environment, which overrides the current profile', async () => {
  await writeProfiles(environment, { current: 'work', profiles: { work, test: test1 } })
  const otherEnvironment = { ...environment, ESPALIER_API_URL: 'https://env.example.com', ESPALIER_TOKEN: 'env' }
  const targetOf = async (variables: NodeJS.ProcessEnv, chosen: { profile?: string; tenant?: string } = {}) => {
    const { url, token } = await readTarget(variables, chosen)
    return [url.origin, token]
  }
  expect(await targetOf(environment)).toEqual([work.api, work.token])
  expect(await targetOf({ ...environment, ESPALIER_PROFILE: 'test' })).toEqual([test1.api, test1.token])
  expect(await targetOf({ ...otherEnvironment, ESPALIER_PROFILE: 'test' })).toEqual(['https://env.example.com', 'env'])
  expect(await targetOf(otherEnvironment, { profile: 'test' })).toEqual([test1.api, test1.token])
  await expect(targetOf(environment, { profile: 'none' })).rejects.toThrow('known profiles: local, work, test')
  await expect(targetOf(environment, { profile: 'work', tenant: 'x' })).rejects.toThrow('--tenant')
  // Both calls choose the embedded installation, but this home has no installation.
  await expect(targetOf(otherEnvironment, { profile: 'local' })).rejects.toThrow('no installation at')
  await expect(targetOf(environment, { tenant: 'x' })).rejects.toThrow('no installation at')
  expect(await readProfile(environment, undefined)).toEqual({ name: 'work', profile: work })
  expect(existsSync(profilesPath(environment)) && readFileSync(profilesPath(environment), 'utf8')).toContain('"work"')
})

test('a profile whose API would get the token in clear text is refused', async () => {
  await writeProfiles(environment, { current: 'work', profiles: { work: { ...work, api: 'http://api.example.com' } } })
  await expect(readTarget(environment, {})).rejects.toThrow('the API of the profile work must be https')
})

test('a token without an API is not sent if there are profiles', async () => {
  const alone = { ...environment, ESPALIER_TOKEN: 'secret' }
  expect((await readTarget(alone, {})).url.hostname).toBe('127.0.0.1')
  await writeProfiles(environment, { profiles: { work } })
  await expect(readTarget(alone, {})).rejects.toThrow('ESPALIER_TOKEN requires ESPALIER_API_URL')
})

test("a renewal keeps the command's profile, also if another profile is current now", async () => {
  await writeProfiles(environment, { current: 'work', profiles: { work, test: test1 } })
  const { renew } = await readTarget(environment, {})
  await writeProfiles(environment, { current: 'test', profiles: { work: { ...work, token: 'g.h.i' }, test: test1 } })
  expect(await renew?.()).toMatchObject({ url: new URL(work.api), token: 'g.h.i' })
  await writeProfiles(environment, { profiles: { test: test1 } })
  await expect(renew?.()).rejects.toThrow('work')
  const otherEnvironment = { ...environment, ESPALIER_API_URL: 'https://env.example.com', ESPALIER_TOKEN: 'env' }
  expect((await readTarget(otherEnvironment, {})).renew).toBeUndefined()
})

test('concurrent changes are all stored', async () => {
  await writeProfiles(environment, { profiles: {} })
  const names = Array.from({ length: 8 }, (_, at) => `p${at}`)
  await Promise.all(
    names.map(name =>
      withProfiles(environment, (present, write) =>
        write({ ...present, profiles: { ...present.profiles, [name]: work } }),
      ),
    ),
  )
  expect(Object.keys((await readProfiles(environment)).profiles).toSorted()).toEqual(names)
  expect(readdirSync(dirname(profilesPath(environment)))).toEqual(['profiles.json'])
})

test('a stale lock is replaced, and its previous holder can no longer write', async () => {
  await writeProfiles(environment, { profiles: {} })
  const lock = `${profilesPath(environment)}.lock`
  await withProfiles(environment, async (present, write) => {
    const old = Date.now() / 1000 - 3600
    utimesSync(lock, old, old)
    await withProfiles(environment, (_, writeOther) => writeOther({ profiles: { work } }))
    await expect(write(present)).rejects.toThrow('try again')
  })
  expect(await readProfiles(environment)).toEqual({ profiles: { work } })
  expect(existsSync(lock)).toBe(false)
})

test('completion renews no token', async () => {
  const oidc = { issuer: 'http://127.0.0.1:1', clientId: 'x', refreshToken: 'r', expiresAt: 1 }
  await writeProfiles(environment, { current: 'work', profiles: { work: { ...work, oidc } } })
  await expect(readTarget(environment, { renews: false })).rejects.toThrow('has expired')
  await expect(readTarget(environment, {})).rejects.toThrow('login provider')
  expect(existsSync(`${profilesPath(environment)}.lock`)).toBe(false)
})
