/**
 * Runs one scenario from beginning to end with a disturbance. Reports the result: the cluster's objects, and violated
 * invariants.
 */
import type { Cluster, Secret } from '../../cluster/index.ts'
import { childNames, systemNamespace } from '../../crds/index.ts'
import {
  type DatabaseRole,
  open,
  previousPassword,
  sealingKeySecret,
  secretLocation,
} from '../../sealing/credentials.ts'
import type { Operator } from '../index.ts'
import { connectionSecretName } from '../managed-database/connection-secrets.ts'
import type { Intercepted } from './effects.ts'
import { endState } from './end-state.ts'
import type { FakeWorkload } from './fake-workload.ts'
import {
  eventually,
  giveSnapshots,
  type Installation,
  openInstallation,
  startTestOperator,
  testNamespace,
} from './installation.ts'
import { createDatabase } from './scenarios/requests.ts'
import type { Scenario, Subject } from './scenarios/scenario.ts'
import { startWitness } from './witness.ts'

export const subject: Subject = {
  name: 'swept',
  id: '5e1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f',
  taskId: '11111111-2222-4333-8444-555555555555',
}

/** The context of a disturbance. */
export type RunControl = {
  installation: Installation
  workload: FakeWorkload
  /** Starts an operator. At the end of the run, operators that the disturbance has not stopped are stopped. */
  start(between?: Intercepted): Promise<Operator>
  /** Requests the scenario's operation. */
  act(): Promise<void>
  isDone(): Promise<boolean>
  complaints: string[]
}

/** `happened`: false if the run ended before the disturbance. */
type Disturbed = { effects: readonly string[]; happened: boolean }

/** Runs the scenario in its cluster, and resolves when the scenario is done. */
export type Disturbance = (control: RunControl) => Promise<Disturbed>

export type Run = Disturbed & {
  end: string[]
  complaints: string[]
  initialised: number[]
  /** How many volumes contain data at the end. */
  volumesWithData: number
  /** How many snapshots of volumes exist at the end. */
  images: number
  /** The backups with objects in the archive at the end. */
  archived: number
}

/** How long the remaining processes have to reach the reference state. */
const settleMs = 5_000

const startWith = (
  installation: Installation,
  between?: Intercepted,
  configuration: Scenario['configuration'] = {},
): Promise<Operator> =>
  startTestOperator(installation, {
    configuration,
    ...(between ? { wrap: between.cluster } : {}),
    ...(between && installation.workload
      ? { administrator: between.access(installation.workload.postgres.access) }
      : {}),
    ...(between && installation.archive ? { archive: between.archive(installation.archive.ways) } : {}),
  })

/** The scenario's initial database, which an undisturbed operator created. */
export async function prepare(
  installation: Installation,
  { before, earlier, hasSnapshots, configuration }: Scenario,
): Promise<void> {
  if (before === undefined) return
  const { cluster, workload } = installation
  if (hasSnapshots) await giveSnapshots(cluster)
  await createDatabase(cluster, { ...subject, taskId: '66666666-2222-4333-8444-555555555555' }, before)
  const operator = await startWith(
    installation,
    undefined,
    configuration?.images || configuration?.pods ? configuration : {},
  )
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
    await eventually(() => earlier.isDone(cluster, subject))
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

/** A role's password, and the previous one while the Secret has it. */
const passwordsIn = (secret: Secret, sealingKey: Uint8Array, role: DatabaseRole): string[] =>
  [role, previousPassword(role)].flatMap(field => {
    const sealed = secret.data?.[field]
    const location = secretLocation(testNamespace, secret.metadata.name, field)
    return sealed === undefined ? [] : [open(sealingKey, location, Buffer.from(sealed, 'base64').toString())]
  })

/** Checks whether each role's password in Postgres is in the Secret. */
async function passwordCheck({ cluster, workload }: { cluster: Cluster; workload: FakeWorkload }) {
  const sealing = await cluster.get('Secret', { namespace: systemNamespace, name: sealingKeySecret })
  return (secret: Secret, role: DatabaseRole): boolean => {
    const volumesWithData = passwordsIn(secret, Buffer.from(sealing?.data?.key ?? '', 'base64'), role)
    return [...workload.postgres.data.values()].every(({ roles }) =>
      volumesWithData.includes(roles[role]?.password ?? ''),
    )
  }
}

async function rotationComplaints(
  { cluster, workload }: { cluster: Cluster; workload: FakeWorkload },
  rotates: DatabaseRole,
  isKnown: (secret: Secret, role: DatabaseRole) => boolean,
): Promise<string[]> {
  const complaints: string[] = []
  const secret = await cluster.get('Secret', credentialsKey)
  if (secret && (!isKnown(secret, rotates) || previousPassword(rotates) in (secret.data ?? {})))
    complaints.push('after the rotation the Secret has a password that is not valid')
  const forClients = await cluster.get('Secret', connectionSecretKey(rotates))
  const shown = Buffer.from(forClients?.data?.password ?? '', 'base64').toString()
  if (forClients && [...workload.postgres.data.values()].some(({ roles }) => roles[rotates]?.password !== shown))
    complaints.push('the Secret for clients has a password that is not valid')
  return complaints
}

/** `reference`: the end state that must be reached within a few seconds after the disturbance. */
export async function run(scenario: Scenario, disturb: Disturbance, reference?: Run): Promise<Run> {
  const installation = await openInstallation()
  const { cluster, workload } = installation
  if (workload === undefined) throw new Error('there is no fake workload')
  await prepare(installation, scenario)
  const isPrepared = () =>
    [...workload.postgres.data.values()].every(({ roles, closed }) => roles.app !== undefined && closed === undefined)
  const isKnown = await passwordCheck({ cluster, workload })
  const witness = await startWitness(cluster, scenario, subject, isPrepared, isKnown)
  const { complaints } = witness
  Object.assign(workload.volumes, scenario.volumes)
  Object.assign(workload.snapshots, scenario.snapshots)
  if (scenario.volumeUse !== undefined)
    for (const data of workload.postgres.data.values()) data.volumeUse = scenario.volumeUse
  const operators: Operator[] = []
  let disturbed: Disturbed = { effects: [], happened: false }
  try {
    disturbed = await disturb({
      installation,
      workload,
      start: async between => {
        const operator = await startWith(installation, between, scenario.configuration)
        operators.push(operator)
        return operator
      },
      act: () => scenario.act(cluster, subject),
      isDone: () => scenario.isDone(cluster, subject),
      complaints,
    })
  } catch (error) {
    complaints.push(`it did not end: ${error}`)
  }
  const isLikeReference = async () => differences(await endState(cluster), reference?.end ?? []).length === 0
  if (reference !== undefined)
    await eventually(isLikeReference, isAlike => isAlike, { withinMs: settleMs, everyMs: 50 }).catch(() => {
      // The comparison finds the differences.
    })
  await Promise.all(operators.map(operator => operator.stop()))
  if (scenario.rotates) complaints.push(...(await rotationComplaints({ cluster, workload }, scenario.rotates, isKnown)))
  const end = await endState(cluster)
  await witness.stop()
  const initialised = [...workload.postgres.initialised.values()]
  const volumesWithData = workload.postgres.data.size
  const images = workload.snapshots.images.size
  const archived = installation.archive?.stored.size ?? 0
  await installation.close()
  return { ...disturbed, end, complaints, initialised, volumesWithData, images, archived }
}

const shownLength = 240

/** The text from a little before the first character that differs. */
function differenceBetween(left: string, right: string): string {
  let at = 0
  while (at < left.length && left[at] === right[at]) at++
  const shown = (text: string) => text.slice(Math.max(0, at - shownLength / 3), at + shownLength)
  return `${left.slice(0, 60)}: ... ${shown(left)} ... instead of ... ${shown(right)} ...`
}

/** The differences of two end states, by object. */
function differences(left: string[], right: string[]): string[] {
  const objectOf = (text: string) => text.split(',', 2).join()
  const [lacks, surplus] = [right.filter(text => !left.includes(text)), left.filter(text => !right.includes(text))]
  const changed = surplus.flatMap(text => {
    const wanted = lacks.find(other => objectOf(other) === objectOf(text))
    return wanted === undefined ? [] : [{ text, wanted }]
  })
  return [
    ...changed.map(({ text, wanted }) => differenceBetween(text, wanted)),
    ...lacks.filter(text => !changed.some(({ wanted }) => wanted === text)).map(text => `lacks ${text}`),
    ...surplus.filter(other => !changed.some(({ text }) => text === other)).map(text => `has ${text}`),
  ]
}

/** The faults of a run: complaints, an end state that differs from the reference, lost data, or data created twice. */
export function faultsOf(
  { complaints, end, initialised, volumesWithData, images, archived }: Run,
  reference: Run,
): string[] {
  const isOnce = initialised.length <= 1 && initialised.every(count => count === 1)
  return [
    ...complaints,
    ...differences(end, reference.end),
    ...(isOnce ? [] : [`volumes were initialised ${initialised} times`]),
    ...(volumesWithData === reference.volumesWithData
      ? []
      : [`${volumesWithData} volumes hold data instead of ${reference.volumesWithData}`]),
    ...(archived === reference.archived ? [] : [`${archived} backups are archived instead of ${reference.archived}`]),
    ...(images === reference.images ? [] : [`there are ${images} images of volumes instead of ${reference.images}`]),
  ]
}
