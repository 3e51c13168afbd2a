/** Whether Postgres accepts the passwords that the operator shows to clients. */
import { describe, expect, test } from 'vitest'
import { type Given, reconciledDatabase } from '../../testing/reconciled-database.ts'

const { status, observedOf, assessmentOf, actionsOf } = reconciledDatabase()
const { credentials } = observedOf()
if (credentials.state !== 'readable') throw new Error('the credentials are not readable')
const found = (given: Given) => assessmentOf(given).findings.CredentialsReady

const inOrder = { status: 'True', reason: 'InOrder', message: 'the roles have the passwords of the Secret' }
const pending = { status: 'False', reason: 'RolesPending', message: 'the roles are getting their passwords' }
const before = status.conditions?.find(({ type }) => type === 'CredentialsReady')
const mintedAt = (text: string) => ({ credentials: { ...credentials, mintedAt: text } })

describe('credentials', () => {
  test('that the roles have are ready', () => {
    expect(found({})).toEqual(inOrder)
  })
  test('that do not exist are being created', () => {
    expect(found({ rest: { credentials: { state: 'absent' } }, status: { volume: undefined } })).toEqual({
      status: 'False',
      reason: 'Minting',
      message: 'the credentials are being created',
    })
  })
  test('that are lost are not created again unless a user requests it', () => {
    const withoutSecret = (rest: object = {}): Given => ({ rest: { credentials: { state: 'absent' }, ...rest } })
    expect(found(withoutSecret())).toMatchObject({ status: 'False', reason: 'CredentialsLost' })
    expect(actionsOf(withoutSecret())).toContainEqual({ do: 'find-credentials' })
    expect(actionsOf(withoutSecret())).not.toContainEqual({ do: 'mint-credentials' })
    const requested = { rotations: { requested: { app: 'new' }, isGivenUp: false } }
    expect(actionsOf(withoutSecret(requested))).toContainEqual({ do: 'mint-credentials' })
    const late = { rotations: { ...requested.rotations, isGivenUp: true } }
    expect(found(withoutSecret(late))?.reason).toBe('CredentialsLost')
  })
  test('that are not readable are reported with what to do', () => {
    const message = 'sealed with another key'
    expect(found({ rest: { credentials: { state: 'unreadable', message } } })).toMatchObject({
      status: 'False',
      reason: 'CredentialsUnreadable',
      message: expect.stringMatching(/^sealed with another key; restore the Secret or the key/),
    })
  })
  test('that the roles do not have yet are pending', () => {
    expect(found({ answer: { rolesInOrder: false } })).toEqual(pending)
  })
  test('during a rotation are valid until it is done or fails', () => {
    const rotated = { app: 'r', admin: 'r' }
    const replaced = { ...credentials, previous: ['app' as const, 'admin' as const], rotations: rotated }
    const of = (isGivenUp: boolean) =>
      found({ rest: { credentials: replaced, rotations: { requested: rotated, isGivenUp } } })
    expect(of(false)).toMatchObject({ status: 'True', reason: 'Rotating' })
    expect(of(false)?.message).toMatch(/^app, admin: the password is being replaced/)
    expect(of(true)).toMatchObject({ status: 'False', reason: 'RotationUnsettled' })
    expect(of(true)?.message).toMatch(/^app, admin: the password was not replaced in time/)
  })
  test('in an immutable Secret stay valid, and report why no password is replaced', () => {
    const requested = { app: 'r' }
    const immutable = { ...credentials, isImmutable: true as const }
    const given: Given = { rest: { credentials: immutable, rotations: { requested, isGivenUp: false } } }
    expect(found(given)).toMatchObject({
      status: 'False',
      reason: 'SecretImmutable',
      message: expect.stringMatching(/^Secret \S+: immutable: /),
    })
    expect(assessmentOf(given).findings.Ready?.status).toBe('True')
    expect(actionsOf(given)).not.toContainEqual(expect.objectContaining({ do: 'rotate-passwords' }))
    const mutable: Given = { rest: { credentials, rotations: { requested, isGivenUp: false } } }
    expect(actionsOf(mutable)).toContainEqual(expect.objectContaining({ do: 'rotate-passwords' }))
    expect(found({ ...given, answer: { rolesInOrder: false } })).toEqual(pending)
  })
  test('that a user changed are reported by role', () => {
    const changed = found({ answer: { changedByUser: ['app', 'admin'] } })
    expect(changed).toMatchObject({ status: 'True', reason: 'PasswordChangedByUser' })
    expect(changed?.message).toMatch(/^app, admin: a user changed the password in Postgres/)
  })

  /** Postgres has not answered about the current passwords. */
  const silences: [string, Given][] = [
    ['whose probe timed out', { answer: undefined }],
    ['that the operator has not probed', { postgres: undefined }],
    ['that was restarted', { pod: { run: 'another' } }],
    ['that refuses', { answer: { state: 'refused', reason: 'auth', message: 'no' } }],
  ]
  test.each(silences)('of a Postgres %s keep the last state', (_, given) => {
    expect(found(given)).toEqual(inOrder)
    const changed = { reason: 'PasswordChangedByUser', message: 'app: the password was changed' }
    expect(found({ ...given, conditions: { CredentialsReady: changed } })).toEqual({ status: 'True', ...changed })
  })
  test.each(silences)('of a Postgres %s are pending if they were never ready', (_, given) => {
    expect(found({ ...given, conditions: { CredentialsReady: { status: 'False' } } })).toEqual(pending)
    expect(found({ ...given, status: { conditions: [] } })).toEqual(pending)
  })
  test.each(silences)('of a Postgres %s are pending if they were created after the last answer', (_, given) => {
    const { lastTransitionTime = '' } = before ?? {}
    expect(found({ ...given, rest: mintedAt(lastTransitionTime) })).toEqual(inOrder)
    expect(found({ ...given, rest: mintedAt('2026-01-02T00:00:00Z') })).toEqual(pending)
  })
  test('that no probe has compared are pending', () => {
    expect(found({ postgres: { passwordVersion: 'older' } })).toEqual(pending)
    expect(found({ postgres: { passwordVersion: 'older' }, answer: undefined })).toEqual(pending)
  })
})
