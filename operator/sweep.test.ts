/**
 * The sweep disturbs every operation at every one of its effects (`make soak`). `make test` tries some of them, and
 * others for each operation. The operator is killed, its caches lag, another leader takes over, a write is refused, or
 * the cluster's controllers are slow. The result must be the same as after an undisturbed run, and no invariant may be
 * violated meanwhile. Store and operator are real. The nodes are fakes, so that every moment can be tried.
 */
import { beforeAll, describe, expect, test } from 'vitest'
import { visiblePhase } from '../crds/index.ts'
import { conditionOf } from './objects/conditions.ts'
import { createCrashPoint } from './testing/crash-point.ts'
import { crash, undisturbed } from './testing/disturbances.ts'
import { eventually, openInstallation, startTestOperator, testNamespace } from './testing/installation.ts'
import { interleavingKinds, interleavings } from './testing/interleavings.ts'
import { scenarios } from './testing/scenarios/index.ts'
import { isSoak, spread } from './testing/soak.ts'
import { faultsOf, prepare, type Run, run, subject } from './testing/swept-run.ts'

/** More effects than any operation has. The sweep ends earlier. */
const limit = 100
const atOnce = 6
/** The approximate number of crashes per scenario that `make test` tries. */
const crashes = 6

/** The disturbances that `make test` tries: one of one kind, another one for each scenario. */
const sample = <T>(list: readonly T[], index: number): T[] =>
  isSoak ? [...list] : list.filter((_, at) => at === index % list.length)

const swept = scenarios.filter(({ isLong }) => isSoak || !isLong)

describe.each(swept.map((scenario, index) => ({ ...scenario, index })))('$name', ({ index, ...scenario }) => {
  let reference: Run
  beforeAll(async () => {
    reference = await run(scenario, undisturbed)
    expect(reference.complaints).toEqual([])
    expect(reference.volumesWithData).toBe(
      scenario.takesAway ? 0 : scenario.isRestored && !scenario.discards ? 2 : 1 + (scenario.copies ?? 0),
    )
    expect(reference.images).toBe(scenario.images ?? 0)
  })

  test('survives a crash after each of its effects', async () => {
    const crashed = async (after: number): Promise<boolean> => {
      const found = await run(scenario, crash(after))
      expect(faultsOf(found, reference), `after effect ${after}, ${found.effects.at(-1)}`).toEqual([])
      return found.happened
    }
    const all = Array.from({ length: limit }, (_, point) => point + 1)
    const every = Math.max(3, Math.ceil(reference.effects.length / crashes))
    // A crash after the last effect does not happen. Only the complete sweep finds that limit itself.
    const points = spread(all, every, index).filter(point => isSoak || point <= reference.effects.length)
    let last = 0
    for (let from = 0; from < points.length; from += atOnce) {
      const some = points.slice(from, from + atOnce)
      const blown = await Promise.all(some.map(crashed))
      last = Math.max(last, ...some.filter((_, which) => blown[which]))
      if (blown.includes(false)) break
    }
    expect(last).toBeGreaterThanOrEqual(Math.floor(reference.effects.length / 2) - 2)
    expect(last).toBeLessThan(limit - 3)
  }, 600_000)

  test.each(sample(interleavingKinds, index))(
    'has the same end state with %s',
    async kind => {
      const all = sample(interleavings(reference.effects.length, index)[kind], 7 * index)
      for (let from = 0; from < all.length; from += atOnce)
        await Promise.all(
          all.slice(from, from + atOnce).map(async ({ name, disturb }) => {
            const found = await run(scenario, disturb, reference)
            expect(faultsOf(found, reference), name).toEqual([])
          }),
        )
    },
    3_600_000,
  )
})

describe('a change of rules', () => {
  test('is complete only after its acknowledgement, at whatever point the operator crashed', async () => {
    const scenario = scenarios.find(({ name }) => name === 'allowlist narrowed')
    if (scenario === undefined) throw new Error('no such scenario')
    const crashed = async (after: number) => {
      const installation = await openInstallation()
      const { cluster, gateway, workload } = installation
      await prepare(installation, scenario)
      gateway?.pause(true)
      const crashPoint = createCrashPoint(after)
      const crashing = await startTestOperator(installation, {
        wrap: crashPoint.cluster,
        ...(workload ? { administrator: crashPoint.access(workload.postgres.access) } : {}),
      })
      await scenario.act(cluster, subject)
      await eventually(() => crashPoint.hasCrashed)
      await crashing.stop()
      const operator = await startTestOperator(installation)
      const database = () => cluster.get('ManagedDatabase', { namespace: testNamespace, name: subject.name })
      const waiting = await eventually(
        database,
        found => conditionOf(found?.status, 'EndpointReady')?.reason === 'AcknowledgementPending',
      )
      expect(waiting && visiblePhase(waiting), `after effect ${after}, ${crashPoint.effects.at(-1)}`).toBe('modifying')
      gateway?.pause(false)
      await eventually(() => scenario.isDone(cluster, subject))
      await operator.stop()
      await installation.close()
    }
    // Its first effects are the route, the status and the Task. The other effects follow the acknowledgement.
    await Promise.all([1, 2, 3].map(crashed))
  })
})
