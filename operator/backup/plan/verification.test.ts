/** Which backups are verified, the actions for it, and the record of the result. */
import { describe, expect, test } from 'vitest'
import { annotations, type Backup } from '../../../crds/index.ts'
import { preciseTime } from '../../../values/time.ts'
import { soundCopy } from '../../testing/fake-verifier.ts'
import {
  ago,
  backup,
  database,
  deadlines,
  now,
  observed,
  ofBranch,
  region,
  snapshot,
} from '../../testing/observed-backup.ts'
import { plainSpec } from '../../testing/samples.ts'
import type { Observed, VerificationFacts, VerifierEnd } from '../observed.ts'
import { plan } from './index.ts'
import { notVerified, outcomeOf } from './verification.ts'

type Status = NonNullable<Backup['status']>
type Verify = NonNullable<(typeof plainSpec)['backup']['verify']>

const complete = snapshot({ cutAt: now - 500, isReady: true })
const begin = { do: 'begin-verification' }
const end = { do: 'end-verification' }

describe('an automatic verification', () => {
  const ofDatabase = (purpose: Backup['spec']['purpose'], verify?: Verify): Partial<Observed> => {
    const policy = { durable: false, ...(verify === undefined ? {} : { verify }) }
    const spec = { ...plainSpec, backup: policy }
    return {
      backup: { ...backup(), spec: { ...backup().spec, purpose } },
      source: { database: { ...database(), spec }, region, isReachable: true },
    }
  }
  const scheduledOf = ({ backup: its = backup(), ...more }: Partial<Observed>): Partial<Observed> => ({
    ...more,
    backup: { ...its, spec: { ...its.spec, purpose: 'scheduled' } },
  })
  test.each<[string, Partial<Observed>, Status['verification']]>([
    ['is pending for a scheduled backup', ofDatabase('scheduled'), 'pending'],
    ['is pending if the database requests it', ofDatabase('scheduled', 'scheduled'), 'pending'],
    ['is absent if the database switches it off', ofDatabase('scheduled', 'none'), undefined],
    ['is absent for a backup of a user', ofDatabase('user'), undefined],
    ['is absent for a backup of a restore', ofDatabase('postrestore'), undefined],
    ['is absent for a backup of a branch', scheduledOf(ofBranch({})), undefined],
    ['is absent if the database no longer exists', { ...ofDatabase('scheduled'), source: undefined }, undefined],
  ])('%s', (_, more, expected) => {
    const { status } = plan(observed({ ...more, snapshot: complete }), now, deadlines)
    expect([status.phase, status.verification]).toEqual(['completed', expected])
  })
})

const ended = (status: Partial<Status>, metadata = {}): Backup =>
  backup({ phase: 'completed', finishedAt: ago(9_000), ...status }, metadata)
const planOf = (its: Backup, verification: Partial<VerificationFacts> = {}) => {
  const target = { pgVersion: '18' as const, region }
  const facts = { hasObjects: false, claim: false, pod: undefined, hasSlot: true, target, ...verification }
  return plan(observed({ backup: its, snapshot: complete, verification: facts }), now, deadlines)
}
const verifyMetadata = (value: string) => ({ annotations: { [annotations.verify]: value } })
const result = (value?: string) => ({ endedAt: ago(5_000), ...(value === undefined ? {} : { asked: value }) })

test('is stopped if the id of the backup was changed, and nothing waits for it', () => {
  const its = ended({ verification: 'pending', snapshotName: 'bkp-another' })
  const { actions, status } = planOf(its)
  expect(actions).toEqual([])
  expect(status).toMatchObject({ phase: 'completed', verification: 'failed' })
  expect(status.verificationResult?.error).toMatch(
    /^not verified: its label .* was changed after the backup was created$/,
  )
  const named = ended({ verification: 'pending', snapshotName: 'bkp-i' })
  expect(planOf(named).actions).toEqual([begin])
})

describe('a verification', () => {
  const pending = ended({ verification: 'pending' })
  const pod = { isDeleting: false, madeAt: now - 1_000, end: undefined }
  const runs = { hasObjects: true, claim: true, pod }
  const until = now - 1_000 + deadlines.verificationMs

  test.each<[string, Backup, Partial<VerificationFacts>, object[], number?]>([
    ['begins', pending, {}, [begin]],
    ['waits for a free slot', pending, { hasSlot: false }, []],
    ['deletes objects of an earlier attempt before it begins', pending, { hasObjects: true, claim: true }, [end]],
    ['is checked at its deadline', pending, runs, [], until],
    [
      'has a later deadline for a larger backup',
      ended({ verification: 'pending', sizeBytes: 10 ** 9 }),
      runs,
      [],
      until + 200_000,
    ],
    ['a running one keeps its slot', pending, { ...runs, hasSlot: false }, [], until],
    ['is repeated if its pod is being deleted', pending, { ...runs, pod: { ...pod, isDeleting: true } }, [end]],
    ['is repeated if its copy is lost', pending, { ...runs, claim: false }, [end]],
  ])('%s', (_, its, facts, actions, requeueAt) => {
    expect(planOf(its, facts)).toEqual({ actions, status: its.status, requeueAt })
  })

  test.each<[string, Partial<VerificationFacts>, RegExp]>([
    [
      'that exceeds its time limit',
      { ...runs, pod: { ...pod, madeAt: now - deadlines.verificationMs } },
      /^not verified: the verification of a copy did not end within 30 minutes$/,
    ],
    [
      'without a region or an image of its version',
      { target: undefined },
      /^not verified: the database or branch no longer exists/,
    ],
    [
      'that loses its region or image meanwhile',
      { ...runs, target: undefined },
      /^not verified: the database or branch no longer exists/,
    ],
  ])('%s is stopped, and its objects are deleted after that', (_, facts, error) => {
    const { actions, status, requeueAt } = planOf(pending, facts)
    expect(status).toEqual({
      ...pending.status,
      verification: 'failed',
      verificationResult: { endedAt: preciseTime(now), error: expect.stringMatching(error) },
    })
    expect([actions, requeueAt]).toEqual([[], undefined])
    expect(planOf({ ...pending, status }, runs).actions).toEqual([end])
  })

  test('that is impossible has a reason, no longer than the limit of the status', () => {
    expect(notVerified(pending, 'x'.repeat(2000), now).verificationResult?.error).toHaveLength(1000)
  })
})

describe('its result', () => {
  const statusAfter = (exitCode: number, message: string, metadata = {}, more: Partial<VerificationFacts> = {}) => {
    const its: VerifierEnd = { exitCode, message }
    const pod = { isDeleting: false, madeAt: 0, end: its }
    const { actions, status } = planOf(ended({ verification: 'pending', verificationTries: 2 }, metadata), {
      ...{ hasObjects: true, claim: true, pod },
      ...more,
    })
    expect(actions).toEqual([])
    return [status.verification, status.verificationResult]
  }
  const counts = { version: '18.4', databases: 3, relations: 200, indexes: 500, pages: 4_000 }
  const found = (...findings: string[]) => JSON.stringify({ ...counts, faults: findings.length, findings })
  const endedAt = preciseTime(now)

  test('is the output of the pod', () => {
    const sound = { endedAt, ...counts, faults: 0 }
    expect(statusAfter(0, soundCopy.message)).toEqual(['verified', sound])
    const damaged = { endedAt, ...counts, faults: 2, error: '2 faults found: page 7 does not match; public.t: x' }
    expect(statusAfter(0, found('page 7 does not match', 'public.t: x'))).toEqual(['failed', damaged])
  })
  test('is a failure without an implied damage if the output is invalid', () => {
    const failed = (error: string) => ['failed', { endedAt, error }]
    expect(statusAfter(1, soundCopy.message)).toEqual(
      failed(expect.stringMatching(/^not verified: .*exited with code 1: /)),
    )
    expect(statusAfter(70, 'out of memory')).toEqual(
      failed('not verified: the verification pod exited with code 70: out of memory'),
    )
    expect(statusAfter(137, '')).toEqual(
      failed('not verified: the verification pod exited with code 137: it reported nothing'),
    )
    expect(statusAfter(0, 'all is well')).toEqual(
      failed('not verified: the verification pod exited with code 0: all is well'),
    )
  })
  test.each<[string, number, string]>([
    ['is killed', 137, ''],
    ['is evicted by its node', -1, 'Evicted: the node was low on memory'],
    ['reports invalid output', 0, 'all is well'],
  ])('is unknown for a copy that %s: another copy is made, three in all', (_, exitCode, message) => {
    const pod = { isDeleting: false, madeAt: now - 1_000, end: { exitCode, message } }
    const next = (tries?: number, more = {}) => {
      const its = ended({ verification: 'pending', ...(tries === undefined ? {} : { verificationTries: tries }) })
      const { actions, status } = planOf(its, { hasObjects: true, claim: true, pod: { ...pod, ...more } })
      return [actions, status.verification, status.verificationTries]
    }
    expect(next()).toEqual([[end], 'pending', 1])
    // It is counted once, however long its deletion takes.
    expect(next(1, { isDeleting: true })).toEqual([[end], 'pending', 1])
    expect(next(1)).toEqual([[end], 'pending', 2])
    expect(next(2)).toEqual([[], 'failed', undefined])
  })
  test('is valid whatever its time and wherever its data are now', () => {
    expect(statusAfter(0, soundCopy.message, {}, { target: undefined })[0]).toBe('verified')
  })
  test('is no longer than the limit of the status', () => {
    const long = { endedAt, error: expect.stringMatching(/^.{1000}$/) }
    expect(statusAfter(70, JSON.stringify({ message: 'x'.repeat(2000) }))[1]).toEqual(long)
    expect(statusAfter(0, found('y'.repeat(2000)))[1]).toMatchObject({ error: long.error, faults: 1 })
  })
  test('names the request', () => {
    expect(statusAfter(0, soundCopy.message, verifyMetadata('once'))[1]).toMatchObject({ asked: 'once' })
    expect(statusAfter(0, soundCopy.message)[1]).not.toHaveProperty('asked')
  })

  test.each<[string, Parameters<typeof outcomeOf>[0]]>([
    ['verified', { endedAt, faults: 0 }],
    ['damaged', { endedAt, faults: 1, error: '1 fault found: x' }],
    ['unchecked', { endedAt, error: 'not verified: x' }],
  ])('counts as %s', (expected, its) => expect(outcomeOf(its)).toBe(expected))
})

describe('if there is nothing to verify', () => {
  const there = { hasObjects: true, claim: true }
  test.each<[string, Backup]>([
    ['it has ended', ended({ verification: 'verified', verificationResult: result() })],
    [
      'it has ended, and answers the latest request',
      ended({ verification: 'failed', verificationResult: result('1') }, verifyMetadata('1')),
    ],
    ['it was never requested', ended({})],
    ['the backup was lost later', ended({ phase: 'failed', verification: 'verified', verificationResult: result() })],
    ['the backup failed', ended({ phase: 'failed' }, verifyMetadata('1'))],
  ])('its objects are deleted, and nothing is reported: %s', (_, its) => {
    expect(planOf(its, there)).toMatchObject({ actions: expect.arrayContaining([end]), status: its.status })
    expect(planOf(its).actions).not.toContainEqual(end)
    expect(planOf(its).status).toEqual(its.status)
  })
  test('nothing waits for a lost backup any more', () => {
    const lost = ended({ phase: 'failed', verification: 'pending' })
    expect(planOf(lost, there).actions).toContainEqual(end)
    expect(planOf(lost, there).status.verification).toBeUndefined()
    expect(planOf(lost).status).toMatchObject({ phase: 'failed', finishedAt: ago(9_000) })
  })
  test('a new request is done once the previous verification is deleted', () => {
    const verified = ended({ verification: 'verified', verificationResult: result('1') }, verifyMetadata('2'))
    expect(planOf(verified, there)).toMatchObject({ actions: [end], status: { verification: 'pending' } })
    expect(planOf(verified)).toMatchObject({ actions: [], status: { verification: 'pending' } })
  })
})
