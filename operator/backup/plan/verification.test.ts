/** Which backups are verified, what is done for it, and what is on record of its end. */
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

const whole = snapshot({ cutAt: now - 500, isReady: true })
const begin = { do: 'begin-verification' }
const end = { do: 'end-verification' }

describe('verified by itself', () => {
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
    ['is what was scheduled', ofDatabase('scheduled'), 'pending'],
    ['and where its database says so', ofDatabase('scheduled', 'scheduled'), 'pending'],
    ['is nothing where its database says so', ofDatabase('scheduled', 'none'), undefined],
    ['is nothing that somebody asked for', ofDatabase('user'), undefined],
    ['is nothing that a restore took', ofDatabase('postrestore'), undefined],
    ['is nothing of a branch', scheduledOf(ofBranch({})), undefined],
    ['is nothing whose database is gone', { ...ofDatabase('scheduled'), source: undefined }, undefined],
  ])('%s', (_, more, expected) => {
    const { status } = plan(observed({ ...more, snapshot: whole }), now, deadlines)
    expect([status.phase, status.verification]).toEqual(['completed', expected])
  })
})

const ended = (status: Partial<Status>, metadata = {}): Backup =>
  backup({ phase: 'completed', finishedAt: ago(9_000), ...status }, metadata)
const planOf = (its: Backup, verification: Partial<VerificationFacts> = {}) => {
  const place = { pgVersion: '18' as const, region }
  const facts = { isThere: false, claim: false, pod: undefined, isTurn: true, place, ...verification }
  return plan(observed({ backup: its, snapshot: whole, verification: facts }), now, deadlines)
}
const asked = (mark: string) => ({ annotations: { [annotations.verify]: mark } })
const result = (mark?: string) => ({ endedAt: ago(5_000), ...(mark === undefined ? {} : { asked: mark }) })

test('where somebody has changed its id, is given up: nobody waits for it', () => {
  const its = ended({ verification: 'pending', snapshotName: 'bkp-another' })
  const { actions, status } = planOf(its)
  expect(actions).toEqual([])
  expect(status).toMatchObject({ phase: 'completed', verification: 'failed' })
  expect(status.verificationResult?.error).toMatch(/^not checked: its label .* is not the one that it was made with$/)
  const named = ended({ verification: 'pending', snapshotName: 'bkp-i' })
  expect(planOf(named).actions).toEqual([begin])
})

describe('a verification', () => {
  const pending = ended({ verification: 'pending' })
  const pod = { isGoing: false, madeAt: now - 1_000, end: undefined }
  const runs = { isThere: true, claim: true, pod }
  const until = now - 1_000 + deadlines.verificationMs

  test.each<[string, Backup, Partial<VerificationFacts>, object[], number?]>([
    ['begins', pending, {}, [begin]],
    ['waits its turn', pending, { isTurn: false }, []],
    ['clears what is left before it begins', pending, { isThere: true, claim: true }, [end]],
    ['is waited for', pending, runs, [], until],
    [
      'is waited for the longer the more there is to read',
      ended({ verification: 'pending', sizeBytes: 10 ** 9 }),
      runs,
      [],
      until + 200_000,
    ],
    ['is waited for whoever is next', pending, { ...runs, isTurn: false }, [], until],
    ['begins anew when its pod goes', pending, { ...runs, pod: { ...pod, isGoing: true } }, [end]],
    ['begins anew when its copy is lost', pending, { ...runs, claim: false }, [end]],
  ])('%s', (_, its, facts, actions, wakeAt) => {
    expect(planOf(its, facts)).toEqual({ actions, status: its.status, wakeAt })
  })

  test.each<[string, Partial<VerificationFacts>, RegExp]>([
    [
      'whose time is over',
      { ...runs, pod: { ...pod, madeAt: now - deadlines.verificationMs } },
      /^not checked: a copy of it was not through after 30 minutes$/,
    ],
    ['whose data can run nowhere', { place: undefined }, /^not checked: what it is a backup of is gone/],
    ['whose place is lost on the way', { ...runs, place: undefined }, /^not checked: what it is a backup of is gone/],
  ])('%s is given up, and what it had goes after that', (_, facts, error) => {
    const { actions, status, wakeAt } = planOf(pending, facts)
    expect(status).toEqual({
      ...pending.status,
      verification: 'failed',
      verificationResult: { endedAt: preciseTime(now), error: expect.stringMatching(error) },
    })
    expect([actions, wakeAt]).toEqual([[], undefined])
    expect(planOf({ ...pending, status }, runs).actions).toEqual([end])
  })

  test('that nobody can make says why, and no more than a status holds', () => {
    expect(notVerified(pending, 'x'.repeat(2000), now).verificationResult?.error).toHaveLength(1000)
  })
})

describe('what it comes to', () => {
  const says = (exitCode: number, message: string, metadata = {}, more: Partial<VerificationFacts> = {}) => {
    const its: VerifierEnd = { exitCode, message }
    const pod = { isGoing: false, madeAt: 0, end: its }
    const { actions, status } = planOf(ended({ verification: 'pending', verificationTries: 2 }, metadata), {
      ...{ isThere: true, claim: true, pod },
      ...more,
    })
    expect(actions).toEqual([])
    return [status.verification, status.verificationResult]
  }
  const counts = { version: '18.4', databases: 3, relations: 200, indexes: 500, pages: 4_000 }
  const found = (...findings: string[]) => JSON.stringify({ ...counts, faults: findings.length, findings })
  const endedAt = preciseTime(now)

  test('is what the pod says', () => {
    const sound = { endedAt, ...counts, faults: 0 }
    expect(says(0, soundCopy.message)).toEqual(['verified', sound])
    const damaged = { endedAt, ...counts, faults: 2, error: '2 found: page 7 does not match; public.t: x' }
    expect(says(0, found('page 7 does not match', 'public.t: x'))).toEqual(['failed', damaged])
  })
  test('is a failure where it says nothing that can be believed, and no damage', () => {
    const failed = (error: string) => ['failed', { endedAt, error }]
    expect(says(1, soundCopy.message)).toEqual(failed(expect.stringMatching(/^not checked: .*ended with code 1: /)))
    expect(says(70, 'out of memory')).toEqual(failed('not checked: its copy ended with code 70: out of memory'))
    expect(says(137, '')).toEqual(failed('not checked: its copy ended with code 137: it said nothing'))
    expect(says(0, 'all is well')).toEqual(failed('not checked: its copy ended with code 0: all is well'))
  })
  test.each<[string, number, string]>([
    ['is killed', 137, ''],
    ['is put out by its node', -1, 'Evicted: the node was low on memory'],
    ['says nothing that can be read', 0, 'all is well'],
  ])('is not known of a copy that %s: another one is made, three in all', (_, exitCode, message) => {
    const pod = { isGoing: false, madeAt: now - 1_000, end: { exitCode, message } }
    const next = (tries?: number, more = {}) => {
      const its = ended({ verification: 'pending', ...(tries === undefined ? {} : { verificationTries: tries }) })
      const { actions, status } = planOf(its, { isThere: true, claim: true, pod: { ...pod, ...more } })
      return [actions, status.verification, status.verificationTries]
    }
    expect(next()).toEqual([[end], 'pending', 1])
    // It is counted once, however long it takes to go.
    expect(next(1, { isGoing: true })).toEqual([[end], 'pending', 1])
    expect(next(1)).toEqual([[end], 'pending', 2])
    expect(next(2)).toEqual([[], 'failed', undefined])
  })
  test('holds whatever its time and wherever its data are now', () => {
    expect(says(0, soundCopy.message, {}, { place: undefined })[0]).toBe('verified')
  })
  test('is no longer than a status holds', () => {
    const long = { endedAt, error: expect.stringMatching(/^.{1000}$/) }
    expect(says(70, JSON.stringify({ message: 'x'.repeat(2000) }))[1]).toEqual(long)
    expect(says(0, found('y'.repeat(2000)))[1]).toMatchObject({ error: long.error, faults: 1 })
  })
  test('says who asked for it', () => {
    expect(says(0, soundCopy.message, asked('once'))[1]).toMatchObject({ asked: 'once' })
    expect(says(0, soundCopy.message)[1]).not.toHaveProperty('asked')
  })

  test.each<[string, Parameters<typeof outcomeOf>[0]]>([
    ['verified', { endedAt, faults: 0 }],
    ['damaged', { endedAt, faults: 1, error: '1 found: x' }],
    ['unchecked', { endedAt, error: 'not checked: x' }],
  ])('counts as %s', (expected, its) => expect(outcomeOf(its)).toBe(expected))
})

describe('once there is nothing to check', () => {
  const there = { isThere: true, claim: true }
  test.each<[string, Backup]>([
    ['it has ended', ended({ verification: 'verified', verificationResult: result() })],
    [
      'it has ended as it was asked for',
      ended({ verification: 'failed', verificationResult: result('1') }, asked('1')),
    ],
    ['it was never asked for', ended({})],
    [
      'the backup was lost after it',
      ended({ phase: 'failed', verification: 'verified', verificationResult: result() }),
    ],
    ['the backup failed', ended({ phase: 'failed' }, asked('1'))],
  ])('what was made for it goes, and nothing is said: %s', (_, its) => {
    expect(planOf(its, there)).toMatchObject({ actions: expect.arrayContaining([end]), status: its.status })
    expect(planOf(its).actions).not.toContainEqual(end)
    expect(planOf(its).status).toEqual(its.status)
  })
  test('since the backup is lost, nobody waits for it any more', () => {
    const lost = ended({ phase: 'failed', verification: 'pending' })
    expect(planOf(lost, there).actions).toContainEqual(end)
    expect(planOf(lost, there).status.verification).toBeUndefined()
    expect(planOf(lost).status).toMatchObject({ phase: 'failed', finishedAt: ago(9_000) })
  })
  test('asked for again, it is done again once the last is cleared', () => {
    const verified = ended({ verification: 'verified', verificationResult: result('1') }, asked('2'))
    expect(planOf(verified, there)).toMatchObject({ actions: [end], status: { verification: 'pending' } })
    expect(planOf(verified)).toMatchObject({ actions: [], status: { verification: 'pending' } })
  })
})
