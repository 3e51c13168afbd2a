import { expect, test } from 'vitest'
import { SimulatedClock, settle } from '../../cluster/testing/simulated-clock.ts'
import { silent } from '../testing/installation.ts'
import { createErrands, type Errand, type ErrandContext, type ErrandLimits, StalledError } from './errands.ts'

const limits: ErrandLimits = { atOnce: 2, mostWaiting: 3, stallMs: 60_000 }

function open(more: Partial<ErrandLimits> = {}) {
  const clock = new SimulatedClock()
  const ended: string[] = []
  const errands = createErrands<string>({
    limits: { ...limits, ...more },
    onEnd: key => ended.push(key),
    logger: silent,
    clock,
  })
  return { clock, ended, errands }
}

/** An errand that the test carries out by hand. */
function byHand(purpose = 'first') {
  const contexts: ErrandContext[] = []
  const work = Promise.withResolvers<string>()
  const errand: Errand<string> = {
    kind: 'by-hand',
    purpose,
    run: context => {
      contexts.push(context)
      return work.promise
    },
  }
  return { errand, contexts, work }
}

test('an errand asked for several times runs once and reports its end', async () => {
  const { clock, ended, errands } = open()
  const { errand, contexts, work } = byHand()
  expect(errands.ask('a', errand)).toMatchObject({ state: 'running' })
  errands.ask('a', errand)
  await clock.advance(30_000)
  work.resolve('done')
  await settle()
  expect(contexts).toHaveLength(1)
  expect(ended).toEqual(['a'])
  expect(errands.ask('a', errand)).toMatchObject({ state: 'succeeded', result: 'done', tookMs: 30_000 })
  expect(contexts).toHaveLength(1)
  errands.cancel('a')
  expect(errands.ask('a', errand).state).toBe('running')
  expect(contexts).toHaveLength(2)
})

test('an errand without progress for stallMs fails; one with progress has no time limit', async () => {
  const { clock, ended, errands } = open()
  const { errand, contexts } = byHand()
  errands.ask('a', errand)
  for (let hour = 0; hour < 100; hour++) {
    await clock.advance(59_000)
    contexts[0]?.progressed()
  }
  expect(errands.state('a')).toMatchObject({ state: 'running', progressedAt: clock.now() })
  await clock.advance(60_000)
  expect(contexts[0]?.signal.aborted).toBe(true)
  expect(errands.state('a')).toMatchObject({ state: 'failed', error: expect.any(StalledError) })
  expect(ended).toEqual(['a'])
  expect(clock.pending).toBe(0)
})

test('an errand that ignores its signal fails, and counts as running until it ends', async () => {
  const { clock, errands } = open({ atOnce: 1 })
  const { errand, work } = byHand()
  errands.ask('a', errand)
  const next = byHand()
  expect(errands.ask('b', next.errand).state).toBe('waiting')
  await clock.advance(60_000)
  expect([errands.state('a')?.state, next.contexts.length]).toEqual(['failed', 0])
  work.resolve('too late')
  await settle()
  expect([errands.state('a')?.state, next.contexts.length]).toEqual(['failed', 1])
})

test('another purpose cancels the errand, starts it again and discards the old result', async () => {
  const { ended, errands } = open()
  const former = byHand()
  const later = byHand('second')
  errands.ask('a', former.errand)
  errands.ask('a', later.errand)
  expect(former.contexts[0]?.signal.aborted).toBe(true)
  former.work.resolve('former')
  await settle()
  expect([errands.state('a')?.state, ended]).toEqual(['running', []])
  later.work.resolve('later')
  await settle()
  expect(errands.state('a')).toMatchObject({ state: 'succeeded', result: 'later' })
})

test('errands beyond atOnce wait in order; beyond mostWaiting they are not queued', async () => {
  const { errands } = open()
  const all = ['a', 'b', 'c', 'd', 'e', 'f'].map(key => ({ key, ...byHand() }))
  const states = all.map(({ key, errand }) => errands.ask(key, errand).state)
  expect(states).toEqual(['running', 'running', 'waiting', 'waiting', 'waiting', 'waiting'])
  expect(errands.state('f')).toBeUndefined()
  all[1]?.work.reject(new Error('no'))
  errands.cancel('c')
  await settle()
  expect(all.map(({ contexts }) => contexts.length)).toEqual([1, 1, 0, 1, 0, 0])
  expect(errands.state('b')).toMatchObject({ state: 'failed' })
})

test('an errand found running after a crash is joined, and one found done gives its result', async () => {
  const elsewhere = new Map<string, PromiseWithResolvers<string>>()
  let begun = 0
  const checkpoint: Errand<string> = {
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
  before.errands.ask('a', checkpoint)
  await settle()
  // The process is gone without a word; another one begins with nothing.
  const after = open()
  after.errands.ask('a', checkpoint)
  await settle()
  expect(begun).toBe(1)
  elsewhere.get('a')?.resolve('done')
  await settle()
  expect(after.errands.state('a')).toMatchObject({ state: 'succeeded', result: 'done' })

  const found: Errand<string> = { ...checkpoint, find: async () => ({ state: 'done', result: 'long ago' }) }
  after.errands.ask('b', found)
  await settle()
  expect(after.errands.state('b')).toMatchObject({ state: 'succeeded', result: 'long ago' })
})

test('stop cancels all errands and waits for them at most graceMs', async () => {
  const { clock, ended, errands } = open()
  const heeds = byHand()
  const deaf = byHand()
  errands.ask('a', heeds.errand)
  errands.ask('b', deaf.errand)
  await settle()
  heeds.contexts[0]?.signal.addEventListener('abort', () => heeds.work.reject(new Error('ended')))
  const stopped = errands.stop(1_000)
  await clock.advance(1_000)
  await stopped
  expect(deaf.contexts[0]?.signal.aborted).toBe(true)
  expect(ended).toEqual([])
  expect(errands.ask('c', byHand().errand).state).toBe('waiting')
})
