import { expect, test } from 'vitest'
import { createVolumeUse } from './use.ts'

const process = (pid: number) => ({ pid, startTime: '1' })

test('a volume for exclusive use has one user; a shared volume can have many', () => {
  const use = createVolumeUse()
  const released: string[] = []
  use.onRelease(volume => released.push(volume))
  expect(use.acquire('v', 'a', true)).toBe(true)
  expect(use.acquire('v', 'a', true)).toBe(true)
  expect(use.acquire('v', 'b', true)).toBe(false)
  expect(use.acquire('v', 'b', false)).toBe(false)
  use.release('v', 'b')
  use.release('v', 'a')
  expect(released).toEqual(['v'])
  expect(use.acquire('v', 'b', false)).toBe(true)
  expect(use.acquire('v', 'c', false)).toBe(true)
  expect(use.acquire('v', 'd', true)).toBe(false)
  expect(use.isInUse('v')).toBe(true)
})

test('a volume is in use until its last reader has finished', () => {
  const use = createVolumeUse()
  const [one, two] = [use.read('v'), use.read('v')]
  one()
  one()
  expect(use.isInUse('v')).toBe(true)
  two()
  expect(use.isInUse('v')).toBe(false)
})

test('no process starts on a frozen volume, not even between its release and the next freeze', async () => {
  const use = createVolumeUse()
  const first = await use.freeze('v')
  const events: string[] = []
  const second = use.freeze('v').then(release => {
    events.push('frozen again')
    return release
  })
  const started = use.start(['other', 'v'], () => {
    events.push('started')
    return process(7)
  })
  await Promise.resolve()
  expect(events).toEqual([])
  first()
  const release = await second
  await new Promise(resolve => setImmediate(resolve))
  expect(events).toEqual(['frozen again'])
  release()
  await started
  expect(events).toEqual(['frozen again', 'started'])
  expect(use.writers(['v', 'other'])).toHaveLength(1)
})

test('the epoch shows whether a freeze happened between two checks', async () => {
  const use = createVolumeUse()
  const writer = await use.start(['v'], () => process(1))
  const before = use.epoch(['v', 'w'])
  const release = await use.freeze('v')
  expect(use.epoch(['v'])).toBeLessThan(0)
  release()
  release()
  expect(use.epoch(['v', 'w'])).toBe(before + 1)
  use.ended(['v'], writer)
  expect(use.writers(['v'])).toEqual([])
})
