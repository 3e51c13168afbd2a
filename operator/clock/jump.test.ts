import { describe, expect, test } from 'vitest'
import { SimulatedClock } from '../../cluster/testing/simulated-clock.ts'
import { childNames } from '../../crds/index.ts'
import { issuedAt } from '../endpoint/certificate.ts'
import { useInstallation } from '../testing/fixture.ts'
import { eventually, testNamespace } from '../testing/installation.ts'
import { clockJump } from './jump.ts'

const day = 86_400_000

describe('a clock change', () => {
  test.each([
    ['forward', 100 * day],
    ['back', -31_000],
  ])('%s is detected, with its amount', async (_name, by) => {
    const clock = new SimulatedClock()
    let set = 0
    const jump = clockJump(() => clock.now() + set, new AbortController().signal, clock)
    await clock.advance(60_000)
    set = by
    await clock.advance(2_000)
    expect(await jump).toBe(by)
  })

  test('a change that NTP corrects is ignored; an aborted signal leaves no timer', async () => {
    const clock = new SimulatedClock()
    const stopping = new AbortController()
    let set = 0
    const jump = clockJump(() => clock.now() + set, stopping.signal, clock)
    set = 20_000
    await clock.advance(60_000)
    stopping.abort()
    expect(await jump).toBeUndefined()
    expect(clock.pending).toBe(0)
  })
})

describe('an operator whose clock is set 100 days forward and back', () => {
  let set = 0
  const it = useInstallation({ now: () => Date.now() + set })

  test('issues a new certificate both times and keeps probing the database', async () => {
    await it.create('clock')
    const pod = await it.child('Pod', 'clock', 'pod')
    const issued = async () => {
      const name = childNames.tls(await it.idOf('clock'))
      const secret = await it.cluster().get('Secret', { namespace: testNamespace, name })
      return secret === undefined ? Number.NaN : (issuedAt(secret) ?? Number.NaN)
    }
    const probes = () => it.workload().postgres.prober.get(pod?.status?.podIP ?? '') ?? 0
    set = 100 * day
    await eventually(issued, at => at > Date.now() + 99 * day)
    set = 0
    await eventually(issued, at => at <= Date.now())
    const before = probes()
    // Postgres reports that it is not ready. It is probed at once, whatever the time of the last probe.
    await it.workload().restart({ namespace: testNamespace, name: pod?.metadata.name ?? '' })
    await eventually(probes, count => count > before)
  })
})
