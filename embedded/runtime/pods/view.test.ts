import { expect, test } from 'vitest'
import { type ContainerView, initialView, isPodReady, type PodView, podStatus } from './view.ts'

const now = Date.parse('2026-01-01T00:00:10.400Z')
const container = (name: string, changes: Partial<ContainerView> = {}): ContainerView => ({
  ...{ name, image: 'i', last: undefined, restarts: 0, started: true, ready: true },
  state: { kind: 'running', startedAt: now },
  ...changes,
})
const ended = {
  exitCode: 0,
  signal: undefined,
  reason: 'Completed',
  message: undefined,
  startedAt: now,
  finishedAt: now,
}
const view = (changes: Partial<PodView> = {}): PodView => ({
  ...{ ip: '127.9.1.1', startedAt: now, init: [], main: [container('main')], blocked: undefined, outcome: undefined },
  ...changes,
})
const waiting = { ready: false, started: false, state: { kind: 'waiting', reason: 'ContainerCreating' } } as const

test("the pod's phase follows its containers", () => {
  const phaseOf = (changes: Partial<PodView>) => podStatus(view(changes), undefined, now).phase
  expect(phaseOf({})).toBe('Running')
  expect(phaseOf({ main: [container('main', waiting)] })).toBe('Pending')
  expect(phaseOf({ main: [container('main', { ...waiting, last: { ...ended, exitCode: 1 } })] })).toBe('Running')
  expect(phaseOf({ init: [container('init')], main: [container('main', waiting)] })).toBe('Pending')
  expect(phaseOf({ outcome: 'Failed' })).toBe('Failed')
})

test('a pod is ready when all its containers are, and conditions keep the time of their last change', () => {
  const first = podStatus(view({ main: [container('main'), container('side', { ready: false })] }), undefined, now)
  const condition = (status: typeof first, type: string) => status.conditions?.find(found => found.type === type)
  expect(condition(first, 'Ready')).toMatchObject({
    status: 'False',
    message: 'containers with unready status: [side]',
  })
  const later = podStatus(view(), first, now + 60_000)
  expect(condition(later, 'Ready')).toEqual({
    type: 'Ready',
    status: 'True',
    lastTransitionTime: '2026-01-01T00:01:10Z',
  })
  expect(condition(later, 'Initialized')?.lastTransitionTime).toBe('2026-01-01T00:00:10Z')
  expect(isPodReady(view())).toBe(true)
  expect(isPodReady(view({ outcome: 'Succeeded' }))).toBe(false)
})

test('the view of a container continues after a restart of the runtime; a lost container has ended with unknown cause', () => {
  const base = { name: 'main', image: 'i', imageID: '', ready: true, restartCount: 2 }
  const lost = initialView('main', 'i', { ...base, state: { running: { startedAt: '2026-01-01T00:00:00Z' } } })
  expect(lost).toMatchObject({ restarts: 3, last: { exitCode: 255, reason: 'Unknown' }, ready: false })
  const terminated = { exitCode: 7, reason: 'Error', finishedAt: '2026-01-01T00:00:05Z' }
  expect(initialView('main', 'i', { ...base, state: { terminated } })).toMatchObject({
    ...{ restarts: 3, last: { exitCode: 7, finishedAt: Date.parse('2026-01-01T00:00:05Z') } },
  })
  expect(initialView('main', 'i', { ...base, state: { waiting: {} } })).toMatchObject({ restarts: 2, last: undefined })
  const crashing = { ...base, state: { waiting: {} }, lastState: { terminated } }
  expect(initialView('main', 'i', crashing)).toMatchObject({ restarts: 2, last: { exitCode: 7 } })
  expect(initialView('main', 'i', undefined)).toMatchObject({ restarts: 0, last: undefined })
})
