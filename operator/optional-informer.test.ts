import { expect, test } from 'vitest'
import { type Cluster, KindNotServedError } from '../cluster/index.ts'
import { createInformer } from '../cluster/informer/index.ts'
import { SimulatedClock, settle } from '../cluster/testing/simulated-clock.ts'
import { createOptionalInformer } from './optional-informer.ts'
import { eventually, openInstallation, silent } from './testing/installation.ts'

test('a kind that is not served is checked again, and cached when it is served', async () => {
  const installation = await openInstallation({ fakes: false })
  const { cluster } = installation
  const clock = new SimulatedClock()
  let isThere = false
  let queries = 0
  const gated: Cluster = {
    ...cluster,
    list: (kind, options) => {
      queries++
      return isThere ? cluster.list(kind, options) : Promise.reject(new KindNotServedError('no such kind'))
    },
  }
  const informer = createInformer(gated, 'VolumeSnapshot', { logger: silent })
  const optional = createOptionalInformer(gated, 'VolumeSnapshot', informer, { logger: silent, clock })
  const notified: string[] = []
  optional.onServed(() => notified.push(optional.served))
  expect(optional.served).toBe('unknown')
  optional.start()
  await settle()
  await clock.advance(60_000)
  await settle()
  expect([notified, queries]).toEqual([['absent'], 2])
  isThere = true
  await clock.advance(60_000)
  await eventually(
    () => optional.served,
    served => served === 'served',
  )
  expect(notified).toEqual(['absent', 'served'])
  await optional.stop()
  await installation.close()
})

test('an informer stopped before its kind is served ends', async () => {
  const refuse = async () => {
    throw new KindNotServedError('no such kind')
  }
  const installation = await openInstallation({ fakes: false })
  const gated: Cluster = { ...installation.cluster, list: refuse }
  const informer = createInformer(gated, 'VolumeSnapshot', { logger: silent })
  const optional = createOptionalInformer(gated, 'VolumeSnapshot', informer, { logger: silent })
  optional.start()
  await optional.stop()
  expect(optional.served).toBe('absent')
  await installation.close()
})
