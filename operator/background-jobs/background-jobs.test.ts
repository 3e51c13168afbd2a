import { expect, test } from 'vitest'
import { SimulatedClock, settle } from '../../cluster/testing/simulated-clock.ts'
import {
  type BackgroundJob,
  createBackgroundJobs,
  type JobContext,
  type JobLimits,
  StalledError,
} from '../background-jobs/background-jobs.ts'
import { silent } from '../testing/installation.ts'

const limits: JobLimits = { atOnce: 2, mostWaiting: 3, stallMs: 60_000 }

function open(more: Partial<JobLimits> = {}) {
  const clock = new SimulatedClock()
  const ended: string[] = []
  const jobs = createBackgroundJobs<string>({
    limits: { ...limits, ...more },
    onEnd: key => ended.push(key),
    logger: silent,
    clock,
  })
  return { clock, ended, jobs }
}

/** A background job that the test ends by hand. */
function byHand(purpose = 'first') {
  const contexts: JobContext[] = []
  const work = Promise.withResolvers<string>()
  const job: BackgroundJob<string> = {
    kind: 'by-hand',
    purpose,
    run: context => {
      contexts.push(context)
      return work.promise
    },
  }
  return { job, contexts, work }
}

test('a job requested several times runs once and reports its end', async () => {
  const { clock, ended, jobs } = open()
  const { job, contexts, work } = byHand()
  expect(jobs.request('a', job)).toMatchObject({ state: 'running' })
  jobs.request('a', job)
  await clock.advance(30_000)
  work.resolve('done')
  await settle()
  expect(contexts).toHaveLength(1)
  expect(ended).toEqual(['a'])
  expect(jobs.request('a', job)).toMatchObject({ state: 'succeeded', result: 'done', tookMs: 30_000 })
  expect(contexts).toHaveLength(1)
  jobs.cancel('a')
  expect(jobs.request('a', job).state).toBe('running')
  expect(contexts).toHaveLength(2)
})

test('a job without progress for stallMs fails; one with progress has no time limit', async () => {
  const { clock, ended, jobs } = open()
  const { job, contexts } = byHand()
  jobs.request('a', job)
  for (let hour = 0; hour < 100; hour++) {
    await clock.advance(59_000)
    contexts[0]?.progressed()
  }
  expect(jobs.state('a')).toMatchObject({ state: 'running', progressedAt: clock.now() })
  await clock.advance(60_000)
  expect(contexts[0]?.signal.aborted).toBe(true)
  expect(jobs.state('a')).toMatchObject({ state: 'failed', error: expect.any(StalledError) })
  expect(ended).toEqual(['a'])
  expect(clock.pending).toBe(0)
})

test('a job that ignores its signal fails, and counts as running until it ends', async () => {
  const { clock, jobs } = open({ atOnce: 1 })
  const { job, work } = byHand()
  jobs.request('a', job)
  const next = byHand()
  expect(jobs.request('b', next.job).state).toBe('waiting')
  await clock.advance(60_000)
  expect([jobs.state('a')?.state, next.contexts.length]).toEqual(['failed', 0])
  work.resolve('too late')
  await settle()
  expect([jobs.state('a')?.state, next.contexts.length]).toEqual(['failed', 1])
})

test('another purpose cancels the job, starts it again and discards the old result', async () => {
  const { ended, jobs } = open()
  const former = byHand()
  const later = byHand('second')
  jobs.request('a', former.job)
  jobs.request('a', later.job)
  expect(former.contexts[0]?.signal.aborted).toBe(true)
  former.work.resolve('former')
  await settle()
  expect([jobs.state('a')?.state, ended]).toEqual(['running', []])
  later.work.resolve('later')
  await settle()
  expect(jobs.state('a')).toMatchObject({ state: 'succeeded', result: 'later' })
})

test('jobs beyond atOnce wait in order; beyond mostWaiting they are not queued', async () => {
  const { jobs } = open()
  const all = ['a', 'b', 'c', 'd', 'e', 'f'].map(key => ({ key, ...byHand() }))
  const states = all.map(({ key, job }) => jobs.request(key, job).state)
  expect(states).toEqual(['running', 'running', 'waiting', 'waiting', 'waiting', 'waiting'])
  expect(jobs.state('f')).toBeUndefined()
  all[1]?.work.reject(new Error('no'))
  jobs.cancel('c')
  await settle()
  expect(all.map(({ contexts }) => contexts.length)).toEqual([1, 1, 0, 1, 0, 0])
  expect(jobs.state('b')).toMatchObject({ state: 'failed' })
})

test('a job found running after a crash is joined; for one found done its result is returned', async () => {
  const elsewhere = new Map<string, PromiseWithResolvers<string>>()
  let begun = 0
  const checkpoint: BackgroundJob<string> = {
    kind: 'checkpoint',
    purpose: 'snapshot 1',
    find: async () => {
      const there = elsewhere.get('a')
      return there === undefined ? { state: 'absent' } : { state: 'running', join: () => there.promise }
    },
    run: () => {
      begun++
      const work = Promise.withResolvers<string>()
      elsewhere.set('a', work)
      return work.promise
    },
  }
  const before = open()
  before.jobs.request('a', checkpoint)
  await settle()
  // The process crashes without output; the next one starts with empty state.
  const after = open()
  after.jobs.request('a', checkpoint)
  await settle()
  expect(begun).toBe(1)
  elsewhere.get('a')?.resolve('done')
  await settle()
  expect(after.jobs.state('a')).toMatchObject({ state: 'succeeded', result: 'done' })

  const found: BackgroundJob<string> = { ...checkpoint, find: async () => ({ state: 'done', result: 'long ago' }) }
  after.jobs.request('b', found)
  await settle()
  expect(after.jobs.state('b')).toMatchObject({ state: 'succeeded', result: 'long ago' })
})

test('stop cancels all jobs and waits for them at most graceMs', async () => {
  const { clock, ended, jobs } = open()
  const heeds = byHand()
  const deaf = byHand()
  jobs.request('a', heeds.job)
  jobs.request('b', deaf.job)
  await settle()
  heeds.contexts[0]?.signal.addEventListener('abort', () => heeds.work.reject(new Error('ended')))
  const stopped = jobs.stop(1_000)
  await clock.advance(1_000)
  await stopped
  expect(deaf.contexts[0]?.signal.aborted).toBe(true)
  expect(ended).toEqual([])
  expect(jobs.request('c', byHand().job).state).toBe('waiting')
})
