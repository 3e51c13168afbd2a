import { describe, expect, test } from 'vitest'
import type { PostgresObservation, RoleObservation } from '../postgres/administrator.ts'
import { eventually, silent } from '../testing/installation.ts'
import type { PostgresAccess } from './access.ts'
import { answerOf, createLooks, type LookRequest, nextLook, retryDelay } from './looks.ts'
import type { PostgresFacts } from './observed.ts'

const role = (password: RoleObservation['password'] = 'ours', mark = 'm'): RoleObservation => ({
  exists: true,
  password,
  credentialsMark: mark,
})
type Reachable = Extract<PostgresObservation, { reachable: true }>
const observation = (more: Partial<Reachable> = {}): Reachable => ({
  reachable: true,
  serverVersion: 180000,
  systemIdentifier: '1',
  inRecovery: false,
  checksums: true,
  roles: { admin: role(), app: role(), app_read_only: role() },
  applicationDatabase: true,
  databaseBytes: 1,
  hasRoom: true,
  privilegesInOrder: true,
  ...more,
})

describe('what a look comes to', () => {
  test.each<[string, Partial<Reachable>, object]>([
    ['all well', {}, { state: 'answered', rolesInOrder: true, changedByUser: [] }],
    ['recovery', { inRecovery: true }, { state: 'refused', reason: 'starting' }],
    ['no database', { applicationDatabase: false }, { rolesInOrder: false }],
    ['no privileges', { privilegesInOrder: false }, { rolesInOrder: false }],
    [
      "a user's password",
      { roles: { admin: role(), app: role('changed'), app_read_only: role('absent') } },
      { rolesInOrder: true, changedByUser: ['app', 'app_read_only'] },
    ],
    [
      "an older Secret's password",
      { roles: { admin: role(), app: role('changed', 'older'), app_read_only: role() } },
      { rolesInOrder: false, changedByUser: [] },
    ],
  ])('%s', (_, more, expected) => {
    expect(answerOf(observation(more), 'm', undefined)).toMatchObject(expected)
  })

  test('a login without room says nothing against it', () => {
    expect(answerOf(observation(), 'm', { result: 'busy' })).toMatchObject({ login: 'untried' })
    expect(answerOf(observation(), 'm', { result: 'refused', message: 'no' })).toMatchObject({ login: 'refused' })
  })
})

describe('the next look', () => {
  const answer = answerOf(observation(), 'm', { result: 'succeeded', certificate: undefined })
  const facts: PostgresFacts = {
    at: 1000,
    run: 'r',
    ready: true,
    mark: 'm',
    answer,
    isDoubtful: false,
    isOutdated: false,
  }
  const at = (more: Partial<Parameters<typeof nextLook>[0]>) =>
    nextLook({
      key: 'n/a',
      facts,
      pod: { run: 'r', ready: true, startedAt: 0 },
      awaited: false,
      certificateIssuedAt: undefined,
      operatorStartedAt: 0,
      now: 2000,
      ...more,
    })
  test('is at once where something is waited for, and spread out where nothing is', () => {
    expect(at({ facts: undefined, awaited: true })).toBe(2000)
    expect(at({ facts: undefined })).toBeGreaterThanOrEqual(0)
    expect(at({ facts: undefined })).toBeLessThan(30_000)
    expect(at({})).toBeGreaterThanOrEqual(1000 + 24_000)
    expect(at({})).toBeLessThanOrEqual(1000 + 36_000)
  })
  test('is at once where Postgres was started anew, or came to be ready, or something was done in it', () => {
    expect(at({ pod: { run: 'other', ready: true, startedAt: 0 }, awaited: true })).toBe(2000)
    expect(at({ pod: { run: 'r', ready: false, startedAt: 0 } })).toBe(2000)
    expect(at({ facts: { ...facts, isOutdated: true } })).toBe(2000)
  })
  test('is soon after a doubtful one, and after a reload as long as the certificate may still be on its way', () => {
    expect(at({ facts: { ...facts, isDoubtful: true } })).toBe(2000)
    const reloaded = { ...facts, isOutdated: true }
    expect(at({ facts: reloaded, certificateIssuedAt: 1000 })).toBe(1100)
    expect(at({ facts: reloaded, certificateIssuedAt: 1000, now: 61_000 })).toBe(6000)
  })
  test('comes ever more rarely while Postgres does not start', () => {
    const delays = [0, 10_000, 100_000].map(retryDelay)
    expect(delays).toEqual(delays.toSorted((left, right) => left - right))
    expect(delays[0]).toBe(20)
  })
})

describe('looks', () => {
  const access = (observe: PostgresAccess['observe']): PostgresAccess => ({
    observe,
    ensureRoles: async () => {},
    login: async () => ({ result: 'succeeded', certificate: 'c' }),
    reload: async () => {},
  })
  const request = (key: string, observe: PostgresAccess['observe']): LookRequest => ({
    key,
    access: access(observe),
    target: { host: 'h', port: 1, serverName: 's', ca: '' },
    run: 'r',
    ready: true,
    passwords: { admin: 'a', app: 'b', app_read_only: 'c' },
    mark: 'm',
    certificate: 'c',
  })
  const open = () => {
    const answered: string[] = []
    return { answered, looks: createLooks({ now: Date.now, onAnswer: key => answered.push(key), logger: silent }) }
  }

  test('that hang hold up no other, and one at a time is taken of a database', async () => {
    const { answered, looks } = open()
    let taken = 0
    for (let count = 0; count < 3; count++)
      looks.request(
        request('hangs', (_, __, signal) => {
          taken++
          return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
        }),
      )
    looks.request(request('works', async () => observation()))
    await eventually(
      () => looks.get('works'),
      facts => facts !== undefined,
    )
    expect(answered).toEqual(['works'])
    expect(taken).toBe(1)
    expect(looks.get('works')?.answer).toMatchObject({ login: 'succeeded', certificate: 'c' })
    await looks.stop()
  })

  test('too slow to be answered count only the second time in a row', async () => {
    const { looks } = open()
    const slow = async (): Promise<PostgresObservation> => ({ reachable: false, reason: 'timeout', message: 'slow' })
    const take = async (observe: PostgresAccess['observe']) => {
      const before = looks.get('a')
      looks.request(request('a', observe))
      const facts = await eventually(
        () => looks.get('a'),
        found => found !== before,
      )
      return facts?.answer.state
    }
    expect(await take(async () => observation())).toBe('answered')
    expect(await take(slow)).toBe('answered')
    expect(looks.get('a')?.isDoubtful).toBe(true)
    expect(await take(slow)).toBe('refused')
    await looks.stop()
  })

  test('that began before something was done in Postgres are not believed', async () => {
    const { answered, looks } = open()
    const gate = Promise.withResolvers<PostgresObservation>()
    looks.request(request('a', () => gate.promise))
    looks.outdate('a')
    gate.resolve(observation())
    await eventually(
      () => answered.length,
      count => count === 1,
    )
    expect(looks.get('a')).toBeUndefined()
    await looks.stop()
  })
})
