import { describe, expect, test } from 'vitest'
import type { PostgresAnswer } from '../../member/observed.ts'
import { presentAnswer } from '../../member/postgres/answer.ts'
import { emptyClusterState, observedIn } from '../../testing/cluster-state.ts'
import type { Observed } from '../../workload/observed.ts'
import type { CredentialsFacts } from '../observed.ts'
import { givenUpMessage, rolesToRevert, rotation, rotationStep, unfinished } from './rotation.ts'

type Readable = Extract<CredentialsFacts, { state: 'readable' }>
type Answered = Extract<PostgresAnswer, { state: 'answered' }>

const credentialsOf = (more: Partial<Readable> = {}): Readable => ({
  state: 'readable',
  passwordVersion: 'm',
  mintedAt: '2026-01-01T00:00:00Z',
  rotations: {},
  previous: [],
  ...more,
})
const answer = (rolesInOrder = true) => ({ state: 'answered', rolesInOrder }) as Answered

type Case = {
  credentials?: CredentialsFacts
  requested?: Observed['rotations']['requested']
  isGivenUp?: boolean
  rolesInOrder?: boolean
  postgres?: Partial<Observed['postgres']>
}

function observed({ credentials = credentialsOf(), requested = {}, isGivenUp = false, ...more }: Case): Observed {
  const pod = { run: 'r', address: '127.0.0.1', volume: undefined } as Observed['pod']
  const facts = {
    run: 'r',
    passwordVersion: 'm',
    isOutdated: false,
    answer: answer(more.rolesInOrder),
    ...more.postgres,
  }
  return {
    ...observedIn(emptyClusterState()),
    credentials,
    rotations: { requested, isGivenUp },
    pod,
    postgres: facts as Observed['postgres'],
  }
}
const answeredIn = (seen: Observed) => {
  const present = presentAnswer(seen)
  return present?.state === 'answered' ? present : undefined
}
const stepOf = (seen: Observed) => rotationStep(seen, answeredIn(seen))
const unfinishedIn = (seen: Observed) => unfinished(seen, answeredIn(seen))
const planned = (given: Case) => rotation(observed(given), answer(given.rolesInOrder))

const during = credentialsOf({ rotations: { app: 'new' }, previous: ['app'] })
const requested = { app: 'new' }
const forget = { do: 'forget-previous-passwords' }
const takeBack = { do: 'take-back-passwords', roles: ['app'] }

describe('the action of a rotation', () => {
  test.each<[string, Case, object[]]>([
    ['nothing if nothing is requested', {}, []],
    ['a new password', { requested }, [{ do: 'rotate-passwords', rotations: requested }]],
    [
      'nothing if the password is already from this rotation',
      { requested, credentials: credentialsOf({ rotations: requested }) },
      [],
    ],
    [
      'nothing before Postgres has answered about the current passwords',
      { requested, postgres: { passwordVersion: 'old' } },
      [],
    ],
    ['nothing on an outdated answer', { requested, postgres: { isOutdated: true } }, []],
    ['nothing while roles are not in order', { requested, rolesInOrder: false }, []],
    ['nothing after the deadline', { requested, isGivenUp: true }, []],
    ['nothing with unreadable credentials', { requested, credentials: { state: 'unreadable', message: '' } }, []],
    [
      'nothing while Postgres does not have the new password yet',
      { requested, credentials: during, rolesInOrder: false },
      [],
    ],
    ['the previous password is removed after Postgres has the new one', { requested, credentials: during }, [forget]],
    ['the previous password is removed even if the rotation is no longer requested', { credentials: during }, [forget]],
    [
      'the previous password is removed even after the deadline',
      { requested, credentials: during, isGivenUp: true },
      [forget],
    ],
    [
      'the password is reverted if the rotation is no longer requested',
      { credentials: during, rolesInOrder: false },
      [takeBack],
    ],
    [
      'the password is reverted after the deadline',
      { requested, credentials: during, rolesInOrder: false, isGivenUp: true },
      [takeBack],
    ],
    [
      'the password is reverted if another rotation is requested',
      { requested: { app: 'newer' }, credentials: during, rolesInOrder: false },
      [takeBack],
    ],
    [
      'nothing is reverted without an answer',
      { credentials: during, rolesInOrder: false, postgres: { passwordVersion: 'old' } },
      [],
    ],
    [
      'of two roles, only the role whose rotation is no longer requested is reverted',
      {
        requested: { admin: 'x' },
        credentials: credentialsOf({ rotations: { admin: 'x', app: 'new' }, previous: ['admin', 'app'] }),
        rolesInOrder: false,
      },
      [takeBack],
    ],
  ])('%s', (_name, given, actions) => {
    expect(planned(given)).toEqual(actions)
  })
})

describe('what a rotation waits for', () => {
  test.each<[string, Case, RegExp | undefined, string[], string[]]>([
    ['nothing', {}, undefined, [], []],
    ['a new password', { requested }, /creating a new value for the password of app/, ['app'], []],
    [
      'Postgres',
      { requested, credentials: during, rolesInOrder: false },
      /Postgres is getting the password of app/,
      ['app'],
      [],
    ],
    [
      'the removal of the previous password',
      { requested, credentials: during },
      /removing the previous value of the password of app/,
      [],
      [],
    ],
    [
      'nothing, if it is done at the deadline',
      { requested, credentials: during, isGivenUp: true },
      undefined,
      [],
      ['app'],
    ],
    ['no role, if it is reverted', { credentials: during, rolesInOrder: false }, undefined, [], ['app']],
  ])('%s', (_name, given, step, roles, back) => {
    const seen = observed(given)
    const actual = stepOf(seen)
    if (step === undefined) expect(actual ?? 'removing').toMatch(/^removing/)
    else expect(actual).toMatch(step)
    expect(unfinishedIn(seen)).toEqual(roles)
    expect(rolesToRevert(seen)).toEqual(back)
  })
})

describe('the message of a rotation', () => {
  test('of unreadable credentials names the request', () => {
    const unreadable = observed({ requested, credentials: { state: 'unreadable', message: '' } })
    expect(stepOf(unreadable)).toBe('creating a new value for the password of app')
    expect([unfinishedIn(unreadable), rolesToRevert(unreadable)]).toEqual([['app'], []])
    expect(stepOf(observed({ credentials: { state: 'unreadable', message: '' } }))).toBeUndefined()
  })

  test('before the first probe of Postgres names the request', () => {
    const unseen = { ...observed({ requested }), postgres: undefined }
    expect([rotation(unseen, undefined), unfinishedIn(unseen)]).toEqual([[], ['app']])
  })

  test('of two roles names both', () => {
    const both = { admin: 'new', app: 'new' }
    const halfway = credentialsOf({ rotations: both, previous: ['admin', 'app'] })
    const step = (given: Case) => stepOf(observed({ requested: both, ...given }))
    expect(step({})).toBe('creating a new value for the passwords of admin and app')
    expect(step({ credentials: halfway, rolesInOrder: false })).toBe(
      'Postgres is getting the passwords of admin and app; until then the previous value is valid',
    )
    expect(step({ credentials: halfway })).toBe('removing the previous value of the passwords of admin and app')
    expect(step({ credentials: halfway, isGivenUp: true })).toBeUndefined()
    expect(step({ credentials: credentialsOf({ rotations: both }) })).toBeUndefined()
  })

  test('of a failed rotation contains its deadline', () => {
    expect(givenUpMessage(['app'], '2026-01-01T00:00:00Z')).toBe(
      'the password of app could not be replaced by 2026-01-01T00:00:00Z, and the rotation has ended: request it again',
    )
  })
})
