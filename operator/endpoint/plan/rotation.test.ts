import { describe, expect, test } from 'vitest'
import type { PostgresAnswer } from '../../member/observed.ts'
import { presentAnswer } from '../../member/postgres/answer.ts'
import { emptyWorld, observedIn } from '../../testing/plan-world.ts'
import type { Observed } from '../../workload/observed.ts'
import type { CredentialsFacts } from '../observed.ts'
import { givenUpMessage, rolesToRevert, rotation, rotationStep, unfinished } from './rotation.ts'

type Readable = Extract<CredentialsFacts, { state: 'readable' }>
type Answered = Extract<PostgresAnswer, { state: 'answered' }>

const credentialsOf = (more: Partial<Readable> = {}): Readable => ({
  state: 'readable',
  mark: 'm',
  mintedAt: '2026-01-01T00:00:00Z',
  rotations: {},
  previous: [],
  ...more,
})
const answer = (rolesInOrder = true) => ({ state: 'answered', rolesInOrder }) as Answered

type Case = {
  credentials?: CredentialsFacts
  asked?: Observed['rotations']['asked']
  isGivenUp?: boolean
  rolesInOrder?: boolean
  postgres?: Partial<Observed['postgres']>
}

function observed({ credentials = credentialsOf(), asked = {}, isGivenUp = false, ...more }: Case): Observed {
  const pod = { run: 'r', address: '127.0.0.1', volume: undefined } as Observed['pod']
  const facts = { run: 'r', mark: 'm', isOutdated: false, answer: answer(more.rolesInOrder), ...more.postgres }
  return {
    ...observedIn(emptyWorld()),
    credentials,
    rotations: { asked, isGivenUp },
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
const asked = { app: 'new' }
const forget = { do: 'forget-previous-passwords' }
const takeBack = { do: 'take-back-passwords', roles: ['app'] }

describe('the action of a rotation', () => {
  test.each<[string, Case, object[]]>([
    ['nothing where nothing is asked', {}, []],
    ['a new password', { asked }, [{ do: 'rotate-passwords', rotations: asked }]],
    ['nothing once it is of this rotation', { asked, credentials: credentialsOf({ rotations: asked }) }, []],
    ['nothing before Postgres has answered with the passwords as they are', { asked, postgres: { mark: 'old' } }, []],
    ['nothing on a word of before', { asked, postgres: { isOutdated: true } }, []],
    ['nothing while roles are not in order', { asked, rolesInOrder: false }, []],
    ['nothing once its time is over', { asked, isGivenUp: true }, []],
    ['nothing with what cannot be opened', { asked, credentials: { state: 'unreadable', message: '' } }, []],
    ['nothing while Postgres gets it', { asked, credentials: during, rolesInOrder: false }, []],
    ['the one before is forgotten once Postgres has it', { asked, credentials: during }, [forget]],
    ['also where nobody asks any more', { credentials: during }, [forget]],
    ['also once its time is over', { asked, credentials: during, isGivenUp: true }, [forget]],
    ['taken back, asked for no more', { credentials: during, rolesInOrder: false }, [takeBack]],
    ['taken back, over', { asked, credentials: during, rolesInOrder: false, isGivenUp: true }, [takeBack]],
    ['taken back for another', { asked: { app: 'newer' }, credentials: during, rolesInOrder: false }, [takeBack]],
    ['nothing taken back unseen', { credentials: during, rolesInOrder: false, postgres: { mark: 'old' } }, []],
    [
      'of two roles only the one that is asked for no more is taken back',
      {
        asked: { admin: 'x' },
        credentials: credentialsOf({ rotations: { admin: 'x', app: 'new' }, previous: ['admin', 'app'] }),
        rolesInOrder: false,
      },
      [takeBack],
    ],
  ])('%s', (_name, given, actions) => {
    expect(planned(given)).toEqual(actions)
  })
})

describe('the wait of a rotation', () => {
  test.each<[string, Case, RegExp | undefined, string[], string[]]>([
    ['nothing', {}, undefined, [], []],
    ['a new password', { asked }, /making a new one for the password of app/, ['app'], []],
    ['Postgres', { asked, credentials: during, rolesInOrder: false }, /Postgres gets the password of app/, ['app'], []],
    ['to forget the one before', { asked, credentials: during }, /forgetting the password of app/, [], []],
    ['nothing, done as its time was over', { asked, credentials: during, isGivenUp: true }, undefined, [], ['app']],
    ['nobody: it is taken back', { credentials: during, rolesInOrder: false }, undefined, [], ['app']],
  ])('%s', (_name, given, step, roles, back) => {
    const seen = observed(given)
    const said = stepOf(seen)
    if (step === undefined) expect(said ?? 'forgetting').toMatch(/^forgetting/)
    else expect(said).toMatch(step)
    expect(unfinishedIn(seen)).toEqual(roles)
    expect(rolesToRevert(seen)).toEqual(back)
  })
})

describe('the message of a rotation', () => {
  test('of unreadable credentials names the request', () => {
    const unreadable = observed({ asked, credentials: { state: 'unreadable', message: '' } })
    expect(stepOf(unreadable)).toBe('making a new one for the password of app')
    expect([unfinishedIn(unreadable), rolesToRevert(unreadable)]).toEqual([['app'], []])
    expect(stepOf(observed({ credentials: { state: 'unreadable', message: '' } }))).toBeUndefined()
  })

  test('before the first probe of Postgres names the request', () => {
    const unseen = { ...observed({ asked }), postgres: undefined }
    expect([rotation(unseen, undefined), unfinishedIn(unseen)]).toEqual([[], ['app']])
  })

  test('of two roles names both', () => {
    const both = { admin: 'new', app: 'new' }
    const halfway = credentialsOf({ rotations: both, previous: ['admin', 'app'] })
    const step = (given: Case) => stepOf(observed({ asked: both, ...given }))
    expect(step({})).toBe('making a new one for the passwords of admin and app')
    expect(step({ credentials: halfway, rolesInOrder: false })).toBe(
      'Postgres gets the passwords of admin and app; until then those before are valid',
    )
    expect(step({ credentials: halfway })).toBe('forgetting the passwords of admin and app before the rotation')
    expect(step({ credentials: halfway, isGivenUp: true })).toBeUndefined()
    expect(step({ credentials: credentialsOf({ rotations: both }) })).toBeUndefined()
  })

  test('of a failed one has its deadline', () => {
    expect(givenUpMessage(['app'], '2026-01-01T00:00:00Z')).toBe(
      'the password of app could not be replaced by 2026-01-01T00:00:00Z, and will not be any more: ask again',
    )
  })
})
