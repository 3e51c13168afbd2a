/**
 * The crash sweep: the operator is killed after its n-th effect, for every n of every operation (`make soak`; a third of
 * them in `make test`, other ones for each operation), and started again. The end is the same as of a run that nothing disturbed, and nothing that must never be was so on the
 * way. Store and operator are real; what the nodes do is a fake, so that every n can be tried.
 */
import { describe, expect, test } from 'vitest'
import type { Secret } from '../cluster/index.ts'
import { childNames, systemNamespace, visiblePhase } from '../crds/index.ts'
import { type DatabaseRole, open, previousPassword, sealingKeySecret, secretPlace } from '../sealing/credentials.ts'
import type { Operator } from './index.ts'
import { connectionSecretName } from './managed-database/connection-secrets.ts'
import { conditionOf } from './objects/conditions.ts'
import { endState } from './testing/end-state.ts'
import { createFuse, type Fuse } from './testing/fuse.ts'
import {
  eventually,
  giveSnapshots,
  type Installation,
  openInstallation,
  startTestOperator,
  testNamespace,
} from './testing/installation.ts'
import { createDatabase, type Scenario, type Subject, scenarios } from './testing/scenarios.ts'
import { isSoak, spread } from './testing/soak.ts'
import { startWitness } from './testing/witness.ts'

const subject: Subject = {
  name: 'swept',
  id: '5e1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f',
  taskId: '11111111-2222-4333-8444-555555555555',
}

/** More effects than any operation has: the sweep ends by itself before. */
const limit = 100
const atOnce = 6

const startWith = (
  installation: Installation,
  fuse?: Fuse,
  configuration: Scenario['configuration'] = {},
): Promise<Operator> =>
  startTestOperator(installation, {
    configuration,
    ...(fuse ? { wrap: fuse.cluster } : {}),
    ...(fuse && installation.workload ? { administrator: fuse.access(installation.workload.postgres.access) } : {}),
  })

/** The database as the scenario finds it, made by an operator that nothing disturbs. */
async function prepare(installation: Installation, { before, earlier, hasSnapshots }: Scenario): Promise<void> {
  if (before === undefined) return
  const { cluster, workload } = installation
  if (hasSnapshots) await giveSnapshots(cluster)
  await createDatabase(cluster, { ...subject, taskId: '66666666-2222-4333-8444-555555555555' }, before)
  const operator = await startWith(installation)
  const phase = before.suspended ? 'suspended' : 'available'
  await eventually(
    () => cluster.get('ManagedDatabase', { namespace: testNamespace, name: subject.name }),
    found => found?.status?.phase === phase && found.status.operation === undefined,
  )
  if (earlier && workload) {
    const { growth, refusal } = workload.volumes
    const { making } = workload.snapshots
    Object.assign(workload.volumes, earlier.volumes)
    Object.assign(workload.snapshots, earlier.snapshots)
    await earlier.act(cluster, subject)
    await eventually(
      () => earlier.isDone(cluster, subject),
      isDone => isDone,
    )
    Object.assign(workload.volumes, { growth, refusal })
    Object.assign(workload.snapshots, { making })
  }
  await operator.stop()
}

const credentialsKey = { namespace: testNamespace, name: childNames.credentials(subject.id) }
const connectionSecretKey = (role: DatabaseRole) => ({
  namespace: testNamespace,
  name: connectionSecretName(subject.name, role),
})

/** A role's password, and the one before it while that is kept. */
const passwordsIn = (secret: Secret, sealingKey: Uint8Array, role: DatabaseRole): string[] =>
  [role, previousPassword(role)].flatMap(field => {
    const sealed = secret.data?.[field]
    const place = secretPlace(testNamespace, secret.metadata.name, field)
    return sealed === undefined ? [] : [open(sealingKey, place, Buffer.from(sealed, 'base64').toString())]
  })

type Run = {
  effects: string[]
  isBlown: boolean
  end: string[]
  complaints: string[]
  initialised: number[]
  /** How many volumes hold data in the end. */
  held: number
  /** How many images of volumes there are in the end. */
  images: number
}

/** One run with a crash after the n-th effect. */
async function run(scenario: Scenario, after: number): Promise<Run> {
  const installation = await openInstallation()
  const { cluster, workload } = installation
  if (workload === undefined) throw new Error('there is no fake workload')
  await prepare(installation, scenario)
  const isPrepared = () =>
    [...workload.postgres.data.values()].every(({ roles, closed }) => roles.app !== undefined && closed === undefined)
  const sealing = await cluster.get('Secret', { namespace: systemNamespace, name: sealingKeySecret })
  const isKnown = (secret: Secret, role: DatabaseRole): boolean => {
    const held = passwordsIn(secret, Buffer.from(sealing?.data?.key ?? '', 'base64'), role)
    return [...workload.postgres.data.values()].every(({ roles }) => held.includes(roles[role]?.password ?? ''))
  }
  const witness = await startWitness(cluster, scenario, subject, isPrepared, isKnown)
  Object.assign(workload.volumes, scenario.volumes)
  Object.assign(workload.snapshots, scenario.snapshots)
  if (scenario.volumeUse !== undefined)
    for (const data of workload.postgres.data.values()) data.volumeUse = scenario.volumeUse
  const fuse = createFuse(after)
  let operator = await startWith(installation, fuse, scenario.configuration)
  await scenario.act(cluster, subject)
  const isDone = () => scenario.isDone(cluster, subject)
  const isOver = async () => fuse.isBlown || (await isDone())
  await eventually(isOver, over => over)
  if (fuse.isBlown) {
    await operator.stop()
    operator = await startWith(installation, undefined, scenario.configuration)
    await eventually(isDone, done => done)
  }
  await operator.stop()
  const end = await endState(cluster)
  const { rotates } = scenario
  const secret = rotates && (await cluster.get('Secret', credentialsKey))
  if (secret && (!isKnown(secret, rotates) || previousPassword(rotates) in (secret.data ?? {})))
    witness.complaints.push('the rotation has left a password that is not valid')
  const forClients = rotates && (await cluster.get('Secret', connectionSecretKey(rotates)))
  const shown = Buffer.from(forClients?.data?.password ?? '', 'base64').toString()
  if (forClients && [...workload.postgres.data.values()].some(({ roles }) => roles[rotates]?.password !== shown))
    witness.complaints.push('the Secret for clients has a password that is not valid')
  await witness.stop()
  const { effects, isBlown } = fuse
  const initialised = [...workload.postgres.initialised.values()]
  const held = workload.postgres.data.size
  const images = workload.snapshots.images.size
  await installation.close()
  return { effects, isBlown, end, complaints: witness.complaints, initialised, held, images }
}

/** Where two lists of texts differ, as far as is needed to see what it is. */
function differences(left: string[], right: string[]): string[] {
  const [lacks, surplus] = [right.filter(text => !left.includes(text)), left.filter(text => !right.includes(text))]
  return [...lacks.map(text => `lacks ${text}`), ...surplus.map(text => `has ${text}`)]
}

const swept = scenarios.filter(({ isLong }) => isSoak || !isLong)

describe.each(swept.map((scenario, index) => ({ ...scenario, index })))('$name', ({ index, ...scenario }) => {
  test('survives a crash after each of its effects', async () => {
    const undisturbed = await run(scenario, Number.POSITIVE_INFINITY)
    expect(undisturbed.complaints).toEqual([])
    const crash = async (after: number): Promise<boolean> => {
      const { isBlown, effects, end, complaints, initialised, held, images } = await run(scenario, after)
      const where = `after effect ${after}, ${effects.at(-1)}`
      expect(complaints, where).toEqual([])
      expect(differences(end, undisturbed.end), where).toEqual([])
      expect(initialised.every(count => count === 1) && initialised.length <= 1, where).toBe(true)
      expect(held, where).toBe(undisturbed.held)
      expect(images, where).toBe(undisturbed.images)
      return isBlown
    }
    expect(undisturbed.held).toBe(
      scenario.takesAway ? 0 : scenario.isRestored && !scenario.discards ? 2 : 1 + (scenario.copies ?? 0),
    )
    expect(undisturbed.images).toBe(scenario.images ?? 0)
    const all = Array.from({ length: limit }, (_, point) => point + 1)
    const points = spread(all, 3, index)
    let last = 0
    for (let from = 0; from < points.length; from += atOnce) {
      const some = points.slice(from, from + atOnce)
      const blown = await Promise.all(some.map(crash))
      last = Math.max(last, ...some.filter((_, which) => blown[which]))
      if (blown.includes(false)) break
    }
    expect(last).toBeGreaterThanOrEqual(Math.floor(undisturbed.effects.length / 2) - 2)
    expect(last).toBeLessThan(limit - 3)
  }, 600_000)
})

describe('a change of rules', () => {
  test('is in force only once it is acknowledged, whatever the operator did before it crashed', async () => {
    const scenario = scenarios.find(({ name }) => name === 'allowlist narrowed')
    if (scenario === undefined) throw new Error('no such scenario')
    const crash = async (after: number) => {
      const installation = await openInstallation()
      const { cluster, gateway } = installation
      await prepare(installation, scenario)
      gateway?.hold(true)
      const fuse = createFuse(after)
      const crashing = await startWith(installation, fuse)
      await scenario.act(cluster, subject)
      await eventually(
        () => fuse.isBlown,
        isBlown => isBlown,
      )
      await crashing.stop()
      const operator = await startWith(installation)
      const database = () => cluster.get('ManagedDatabase', { namespace: testNamespace, name: subject.name })
      const waiting = await eventually(
        database,
        found => conditionOf(found?.status, 'EndpointReady')?.reason === 'AcknowledgementPending',
      )
      expect(waiting && visiblePhase(waiting), `after effect ${after}, ${fuse.effects.at(-1)}`).toBe('modifying')
      gateway?.hold(false)
      await eventually(
        () => scenario.isDone(cluster, subject),
        isDone => isDone,
      )
      await operator.stop()
      await installation.close()
    }
    // Its first effects are the route, the status and the Task's; the rest follow the acknowledgement.
    await Promise.all([1, 2, 3].map(crash))
  })
})
