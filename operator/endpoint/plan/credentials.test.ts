/** Whether the passwords that a client is shown are those that Postgres takes. */
import { describe, expect, test } from 'vitest'
import { type Given, settledDatabase } from '../../testing/settled.ts'

const { status, observedOf, assessmentOf, actionsOf } = settledDatabase()
const { credentials } = observedOf()
if (credentials.state !== 'readable') throw new Error('there are credentials')
const found = (given: Given) => assessmentOf(given).findings.CredentialsReady

const inOrder = { status: 'True', reason: 'InOrder', message: 'the roles have the passwords of the Secret' }
const pending = { status: 'False', reason: 'RolesPending', message: 'the roles get their passwords' }
const before = status.conditions?.find(({ type }) => type === 'CredentialsReady')
const mintedAt = (text: string) => ({ credentials: { ...credentials, mintedAt: text } })

describe('credentials', () => {
  test('that the roles have are ready', () => {
    expect(found({})).toEqual(inOrder)
  })
  test('that do not exist are being minted', () => {
    expect(found({ rest: { credentials: { state: 'absent' } }, status: { volume: undefined } })).toEqual({
      status: 'False',
      reason: 'Minting',
      message: 'the credentials are being minted',
    })
  })
  test('that are lost are not minted again without a request', () => {
    const gone = (rest: object = {}): Given => ({ rest: { credentials: { state: 'absent' }, ...rest } })
    expect(found(gone())).toMatchObject({ status: 'False', reason: 'CredentialsLost' })
    expect(actionsOf(gone())).toContainEqual({ do: 'find-credentials' })
    expect(actionsOf(gone())).not.toContainEqual({ do: 'mint-credentials' })
    const asked = { rotations: { asked: { app: 'new' }, isGivenUp: false } }
    expect(actionsOf(gone(asked))).toContainEqual({ do: 'mint-credentials' })
    const late = { rotations: { ...asked.rotations, isGivenUp: true } }
    expect(found(gone(late))?.reason).toBe('CredentialsLost')
  })
  test('that are not readable are reported with the fix', () => {
    const message = 'sealed with another key'
    expect(found({ rest: { credentials: { state: 'unreadable', message } } })).toMatchObject({
      status: 'False',
      reason: 'CredentialsUnreadable',
      message: expect.stringMatching(/^sealed with another key; put the Secret, or the key, back/),
    })
  })
  test('that the roles have not yet are pending', () => {
    expect(found({ answer: { rolesInOrder: false } })).toEqual(pending)
  })
  test('during a rotation are valid until it is done or fails', () => {
    const rotated = { app: 'r', admin: 'r' }
    const replaced = { ...credentials, previous: ['app' as const, 'admin' as const], rotations: rotated }
    const of = (isGivenUp: boolean) =>
      found({ rest: { credentials: replaced, rotations: { asked: rotated, isGivenUp } } })
    expect(of(false)).toMatchObject({ status: 'True', reason: 'Rotating' })
    expect(of(false)?.message).toMatch(/^app, admin: the password is being replaced/)
    expect(of(true)).toMatchObject({ status: 'False', reason: 'RotationUnsettled' })
    expect(of(true)?.message).toMatch(/^app, admin: the password was not replaced in time/)
  })
  test('in an immutable Secret stay valid, and report why no password is replaced', () => {
    const asked = { app: 'r' }
    const immutable = { ...credentials, isImmutable: true as const }
    const given: Given = { rest: { credentials: immutable, rotations: { asked, isGivenUp: false } } }
    expect(found(given)).toMatchObject({
      status: 'False',
      reason: 'SecretImmutable',
      message: expect.stringMatching(/^Secret \S+: immutable: /),
    })
    expect(assessmentOf(given).findings.Ready?.status).toBe('True')
    expect(actionsOf(given)).not.toContainEqual(expect.objectContaining({ do: 'rotate-passwords' }))
    const mutable: Given = { rest: { credentials, rotations: { asked, isGivenUp: false } } }
    expect(actionsOf(mutable)).toContainEqual(expect.objectContaining({ do: 'rotate-passwords' }))
    expect(found({ ...given, answer: { rolesInOrder: false } })).toEqual(pending)
  })
  test('that a user changed are named by role', () => {
    const changed = found({ answer: { changedByUser: ['app', 'admin'] } })
    expect(changed).toMatchObject({ status: 'True', reason: 'PasswordChangedByUser' })
    expect(changed?.message).toMatch(/^app, admin: the password was changed in Postgres/)
  })

  /** Nothing has been heard of Postgres about the present passwords. */
  const silences: [string, Given][] = [
    ['that has not answered in time', { answer: undefined }],
    ['that the operator has not looked at', { postgres: undefined }],
    ['that was started anew', { pod: { run: 'another' } }],
    ['that refuses', { answer: { state: 'refused', reason: 'auth', message: 'no' } }],
  ]
  test.each(silences)('of a Postgres %s keep the last known state', (_, given) => {
    expect(found(given)).toEqual(inOrder)
    const changed = { reason: 'PasswordChangedByUser', message: 'app: the password was changed' }
    expect(found({ ...given, conditions: { CredentialsReady: changed } })).toEqual({ status: 'True', ...changed })
  })
  test.each(silences)('of a Postgres %s are pending if they were never ready', (_, given) => {
    expect(found({ ...given, conditions: { CredentialsReady: { status: 'False' } } })).toEqual(pending)
    expect(found({ ...given, status: { conditions: [] } })).toEqual(pending)
  })
  test.each(silences)('of a Postgres %s are pending if they were minted since', (_, given) => {
    const { lastTransitionTime = '' } = before ?? {}
    expect(found({ ...given, rest: mintedAt(lastTransitionTime) })).toEqual(inOrder)
    expect(found({ ...given, rest: mintedAt('2026-01-02T00:00:00Z') })).toEqual(pending)
  })
  test('that Postgres was not compared with are pending', () => {
    expect(found({ postgres: { mark: 'older' } })).toEqual(pending)
    expect(found({ postgres: { mark: 'older' }, answer: undefined })).toEqual(pending)
  })
})
