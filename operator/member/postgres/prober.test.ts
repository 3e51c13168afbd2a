import { describe, expect, test } from 'vitest'
import type { PostgresObservation, RoleObservation } from '../../postgres/administrator.ts'
import { eventually, silent } from '../../testing/installation.ts'
import type { Login, PostgresAccess } from './access.ts'
import { answerOf, createProber, type ProbeRequest } from './prober.ts'

const role = (password: RoleObservation['password'] = 'ours', passwordVersion = 'm'): RoleObservation => ({
  exists: true,
  password,
  passwordVersion,
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
  certificate: 'c',
  walPosition: '0/1',
  checksumFailures: null,
  wal: 'unasked',
  hasFreeSpace: true,
  privilegesInOrder: true,
  platformInOrder: true,
  configuration: { inForce: 'd', onDisk: 'd', isMounted: true, refused: null, errors: [], pendingRestart: [] },
  ...more,
})

describe('the result of a probe', () => {
  test.each<[string, Partial<Reachable>, object]>([
    ['of a Postgres without a problem', {}, { state: 'answered', rolesInOrder: true, changedByUser: [] }],
    ['of a Postgres in recovery', { inRecovery: true }, { state: 'refused', reason: 'starting' }],
    ['of a Postgres without the database', { applicationDatabase: false }, { rolesInOrder: false }],
    ['of a Postgres without the privileges', { privilegesInOrder: false }, { rolesInOrder: false }],
    [
      "of a role with a user's password",
      { roles: { admin: role(), app: role('changed'), app_read_only: role('absent') } },
      { rolesInOrder: true, changedByUser: ['app', 'app_read_only'] },
    ],
    [
      "of a role with an older Secret's password",
      { roles: { admin: role(), app: role('changed', 'older'), app_read_only: role() } },
      { rolesInOrder: false, changedByUser: [] },
    ],
  ])('%s', (_, more, expected) => {
    expect(answerOf(observation(more), 'm')).toMatchObject(expected)
  })
})

describe('probes', () => {
  const access = (observe: PostgresAccess['observe']): PostgresAccess => ({
    observe,
    ensureRoles: async () => {},
    withRolesLocked: async (_target, work) => work(),
    measure: async () => undefined,
    measureVolume: async () => 0,
    login: async () => ({ result: 'succeeded' }),
    dropInherited: async () => {},
    open: async () => {},
    reload: async () => {},
    checkpoint: async () => ({ systemIdentifier: '1', timeline: 1, startLsn: '0/1', endLsn: '0/1' }),
  })
  const request = (key: string, observe: PostgresAccess['observe']): ProbeRequest => ({
    key,
    access: access(observe),
    target: { host: 'h', port: 1, serverName: 's', ca: '' },
    clientPath: { by: 'direct' },
    run: 'r',
    ready: true,
    passwords: { admin: 'a', app: 'b', app_read_only: 'c' },
    passwordVersion: 'm',
    commits: false,
    configuration: 'd',
    isUrgent: false,
  })
  const open = () => {
    const answered: string[] = []
    return { answered, prober: createProber({ now: Date.now, onAnswer: key => answered.push(key), logger: silent }) }
  }

  test('that hang do not block other databases, and run one at a time for one database', async () => {
    const { answered, prober } = open()
    let taken = 0
    for (let count = 0; count < 3; count++)
      prober.request(
        request('hangs', (_, __, signal) => {
          taken++
          return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
        }),
      )
    prober.request(request('works', async () => observation()))
    await eventually(
      () => prober.get('works'),
      facts => facts !== undefined,
    )
    expect(answered).toEqual(['works'])
    expect(taken).toBe(1)
    expect(prober.get('works')?.answer).toMatchObject({ login: 'succeeded', certificate: 'c' })
    await prober.stop()
  })

  const taker = () => {
    const { prober } = open()
    const take = async (observe: PostgresAccess['observe'], more: Partial<ProbeRequest> = {}) => {
      const before = prober.get('a')
      prober.request({ ...request('a', observe), ...more })
      return eventually(
        () => prober.get('a'),
        found => found !== before,
      )
    }
    return { prober, take }
  }
  const refused = (reason: 'timeout' | 'busy' | 'silent' | 'network') => async (): Promise<PostgresObservation> => ({
    reachable: false,
    reason,
    message: reason,
  })

  test('that time out change no known fact', async () => {
    const { prober, take } = taker()
    expect((await take(async () => observation()))?.slow).toBe(0)
    for (const slow of [1, 2, 3, 4]) {
      const facts = await take(refused(slow % 2 === 0 ? 'busy' : 'timeout'))
      expect(facts).toMatchObject({ slow, answer: { state: 'answered', login: 'succeeded' } })
    }
    expect(await take(refused('network'))).toMatchObject({ slow: 0, answer: { state: 'refused' } })
    await prober.stop()
  })

  test('have no result if all of them timed out in this run of Postgres', async () => {
    const { prober, take } = taker()
    await take(async () => observation())
    expect(await take(refused('timeout'), { run: 'next' })).toMatchObject({ run: 'next', slow: 1, answer: undefined })
    await prober.stop()
  })

  test('that find no machine count as a failure only if two in a row do so', async () => {
    const { prober, take } = taker()
    await take(async () => observation())
    expect(await take(refused('silent'))).toMatchObject({ isUncertain: true, answer: { state: 'answered' } })
    expect(await take(refused('silent'))).toMatchObject({ isUncertain: false, answer: { state: 'refused' } })
    await prober.stop()
  })

  test('that find no machine count as a failure at once if a gateway could not connect before', async () => {
    const { prober, take } = taker()
    await take(async () => observation())
    prober.reportUnreachable('a')
    expect(await take(refused('silent'))).toMatchObject({ isUncertain: false, answer: { state: 'refused' } })
    await take(async () => observation())
    expect(await take(refused('silent'))).toMatchObject({ isUncertain: true, answer: { state: 'answered' } })
    await prober.stop()
  })

  test('log in as a client once for each run of Postgres and each set of passwords', async () => {
    const { prober, take } = taker()
    let logins = 0
    const access: PostgresAccess = {
      ...request('a', async () => observation()).access,
      observe: async () => observation({ certificate: `certificate ${logins}` }),
      login: async () => {
        logins++
        return { result: 'succeeded' }
      },
    }
    const observe = (more: Partial<ProbeRequest> = {}) => take(access.observe, { access, ...more })
    await observe()
    expect(await observe()).toMatchObject({ answer: { login: 'succeeded', certificate: 'certificate 1' } })
    expect(logins).toBe(1)
    await observe({ run: 'next' })
    expect(logins).toBe(2)
    await observe({ run: 'next', passwordVersion: undefined })
    expect(logins).toBe(3)
    await prober.stop()
  })

  test('log in through the Service, which may not route to the pod yet', async () => {
    const { prober, take } = taker()
    const hosts: string[] = []
    let login: Login = { result: 'unreachable', message: 'connect ECONNREFUSED' }
    const access: PostgresAccess = {
      ...request('a', async () => observation()).access,
      login: async ({ host }) => {
        hosts.push(host)
        return login
      },
    }
    const observe = (clientPath: ProbeRequest['clientPath']) => take(access.observe, { access, clientPath })
    expect(await observe({ by: 'elsewhere' })).toMatchObject({
      answer: { login: 'unreachable', loginMessage: 'the Service does not route to this Postgres yet' },
    })
    expect(hosts).toEqual([])
    expect(await observe({ by: 'service', address: '10.0.0.1' })).toMatchObject({
      answer: {
        login: 'unreachable',
        loginMessage: 'the Service does not route to this Postgres yet: connect ECONNREFUSED',
      },
    })
    login = { result: 'refused', message: 'no hba' }
    expect(await observe({ by: 'direct' })).toMatchObject({ answer: { login: 'refused', loginMessage: 'no hba' } })
    login = { result: 'busy' }
    expect(await observe({ by: 'direct' })).toMatchObject({ answer: { login: 'untried' } })
    login = { result: 'succeeded' }
    expect(await observe({ by: 'service', address: '10.0.0.1' })).toMatchObject({ answer: { login: 'succeeded' } })
    expect(hosts).toEqual(['10.0.0.1', 'h', 'h', '10.0.0.1'])
    await prober.stop()
  })

  test('have no result for a login that timed out', async () => {
    const { prober, take } = taker()
    const access: PostgresAccess = {
      ...request('a', async () => observation()).access,
      login: async () => ({ result: 'slow' }),
    }
    expect(await take(access.observe, { access })).toMatchObject({ slow: 1, answer: undefined })
    await prober.stop()
  })

  test('that started before a change to Postgres are discarded', async () => {
    const { answered, prober } = open()
    const gate = Promise.withResolvers<PostgresObservation>()
    prober.request(request('a', () => gate.promise))
    prober.outdate('a', false)
    gate.resolve(observation())
    await eventually(
      () => answered.length,
      count => count === 1,
    )
    expect(prober.get('a')).toBeUndefined()
    await prober.stop()
  })
})
