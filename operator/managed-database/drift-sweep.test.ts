/**
 * Every field of every child of a database, changed, removed and added to by another manager (`make soak`; a spread of them in
 * `make test`). It is as it was within 30 s, or a condition names the field; and the database never says that it serves
 * while clients are refused.
 */
import { describe, expect, test } from 'vitest'
import { type AnyObject, isClusterError, type KindName, type Kinds } from '../../cluster/index.ts'
import { canonicalJson, childNames, type ManagedDatabase, systemNamespace } from '../../crds/index.ts'
import { isUpToDate } from '../objects/up-to-date.ts'
import { podSettings } from '../pod-settings.ts'
import { condition, useInstallation } from '../testing/fixture.ts'
import { eventually, testNamespace } from '../testing/installation.ts'
import { type Mutation, mutationsOf } from '../testing/mutations.ts'
import { isSoak, spread } from '../testing/soak.ts'

const it = useInstallation({ configuration: { pods: podSettings.parse({ disruptionBudget: true }) } })
const open = { ipAllowlist: { rules: [{ cidr: '10.0.0.0/8' }] } }
const withinMs = 30_000

type Child = { kind: KindName; key: { namespace?: string; name: string } }

/** The children that clients depend on, as the cluster has them. */
async function childrenOf(database: ManagedDatabase): Promise<Record<string, Child>> {
  const id = await it.idOf(database.metadata.name)
  const here = (kind: KindName, name: string): Child => ({ kind, key: { namespace: testNamespace, name } })
  const claim = await it.cluster().get('PersistentVolumeClaim', here('Pod', childNames.claim(id, 1)).key)
  return {
    Service: here('Service', childNames.service(id)),
    NetworkPolicy: here('NetworkPolicy', childNames.service(id)),
    PodDisruptionBudget: here('PodDisruptionBudget', childNames.service(id)),
    configuration: here('ConfigMap', childNames.configuration(id, 1)),
    StatefulSet: here('StatefulSet', childNames.statefulSet(id, 1)),
    Pod: here('Pod', childNames.pod(id, 1)),
    credentials: here('Secret', childNames.credentials(id)),
    tls: here('Secret', childNames.tls(id)),
    PersistentVolumeClaim: here('PersistentVolumeClaim', childNames.claim(id, 1)),
    PersistentVolume: { kind: 'PersistentVolume', key: { name: claim?.spec?.volumeName ?? '' } },
    route: {
      kind: 'ConfigMap',
      key: { namespace: systemNamespace, name: `route-${database.status?.endpoint?.port}` },
    },
  }
}

const get = async ({ kind, key }: Child): Promise<AnyObject | undefined> => it.cluster().get(kind, key)

/** What of an object is the operator's to keep, without foreign labels and annotations of pods to come. */
function ownPart(object: AnyObject) {
  const { spec, data, binaryData }: Record<string, unknown> = { ...object }
  const { template }: { template?: { metadata?: Record<string, Record<string, string>> } } = { ...(spec as object) }
  const { labels, annotations } = template?.metadata ?? {}
  const own = (marks: Record<string, string> = {}) =>
    Object.fromEntries(Object.entries(marks).filter(([name]) => name !== 'swept'))
  const metadata = template && { labels: own(labels), annotations: own(annotations) }
  const part = template ? { ...(spec as object), template: { ...template, metadata } } : spec
  return JSON.parse(JSON.stringify({ spec: part, data, binaryData }))
}
/** What is made anew rather than as it was: a certificate. On pods and claims only marks can change that matter, and on volumes their claimRef. */
const marksAlone = new Set(['tls', 'Pod', 'PersistentVolumeClaim', 'PersistentVolume'])
/**
 * Annotations of a pod say what it was made from: one that is changed is at most a reason to make it anew. What a claim was
 * made to ask for counts only until it has its volume.
 */
const unkept = new Set(['Pod', 'tls'])

/** Which claim a volume is for; other fields of a claimRef decide nothing. */
function claimRefOf(volume: AnyObject): unknown {
  const { claimRef } = (volume as Kinds['PersistentVolume']).spec ?? {}
  return claimRef && [claimRef.namespace, claimRef.name, claimRef.uid]
}

function isAsBefore(what: string, before: AnyObject, now: AnyObject | undefined): boolean {
  if (now === undefined) return false
  const { labels, annotations } = before.metadata
  const { 'espalier.dev/asked-storage': _, ...kept } = annotations ?? {}
  if (!isUpToDate(now.metadata, { labels, ...(unkept.has(what) ? {} : { annotations: kept }) })) return false
  if (what === 'PersistentVolume') return canonicalJson(claimRefOf(now)) === canonicalJson(claimRefOf(before))
  return marksAlone.has(what) || canonicalJson(ownPart(now)) === canonicalJson(ownPart(before))
}

/** Whether clients find Postgres: by the Service its pod, by the route the Service, as these were when it served. */
async function isServed(children: Record<string, Child>, before: Record<string, AnyObject | undefined>) {
  const [service, pod] = [children.Service, children.Pod].map(child =>
    it.cluster().get(child?.kind ?? 'Pod', child?.key ?? { name: '' }),
  )
  const [{ spec } = {}, found] = [(await service) as Kinds['Service'], (await pod) as Kinds['Pod']]
  const leads = Object.entries(spec?.selector ?? { none: '' }).every(
    ([key, value]) => found?.metadata.labels?.[key] === value,
  )
  const isSame = async (name: string) => {
    const [child, old] = [children[name], before[name]]
    const now = child && (await get(child))
    return now !== undefined && old !== undefined && canonicalJson(ownPart(now)) === canonicalJson(ownPart(old))
  }
  const isRunning = found?.status?.podIP !== undefined && found.metadata.deletionTimestamp === undefined
  return leads && isRunning && (await isSame('route')) && (await isSame('Service')) && (await isSame('NetworkPolicy'))
}

/** Writes as another manager does. @returns false where the cluster refuses it */
async function mutate(child: Child, mutation: Mutation): Promise<AnyObject | false> {
  const stranger = it.installation().store.connect('somebody')
  for (;;) {
    const found = await eventually(
      () => get(child),
      seen => seen !== undefined,
    )
    if (found === undefined) return false
    try {
      return await stranger.replace(child.kind, mutation.of(found) as never)
    } catch (error) {
      if (isClusterError(error, 'Conflict')) continue
      if (isClusterError(error, 'Invalid', 'Forbidden', 'BadRequest')) return false
      throw error
    }
  }
}

const names = (database: ManagedDatabase | undefined, { field }: Mutation): boolean =>
  (database?.status?.conditions ?? []).some(
    ({ status, message }) => status !== 'True' && message.includes(field.split('.').at(-1) ?? field),
  )

/** Puts an object back by hand, as a person does whom a condition told of it. */
async function putBack(child: Child, { metadata, ...rest }: AnyObject): Promise<void> {
  const { resourceVersion, uid } = (await get(child))?.metadata ?? {}
  const object = { ...rest, metadata: { ...metadata, resourceVersion, uid } }
  await it
    .installation()
    .store.connect('somebody')
    .replace(child.kind, object as never)
}

async function sweep(name: string, what: string, offset: number): Promise<void> {
  const database = await it.create(name, open)
  await it.when(name, found => condition(found, 'Ready')?.status === 'True' && found.status?.operation === undefined)
  const children = await childrenOf(database)
  const all = Object.entries(children)
  const before = Object.fromEntries(await Promise.all(all.map(async ([part, one]) => [part, await get(one)] as const)))
  const [child, present] = [children[what], before[what]]
  if (child === undefined || present === undefined) throw new Error(`there is no ${what}`)
  const initialised = it.workload().postgres.initialised.size
  const look = async (mutation: Mutation) => {
    const [now, seen] = [await get(child), await it.database(name)]
    const isReady = condition(seen, 'Ready')?.status === 'True'
    const isHealed = isReady && isAsBefore(what, present, now) && (await isServed(children, before))
    return { isHealed, isTold: !isReady && names(seen, mutation), conditions: seen?.status?.conditions }
  }
  const unhealed: string[] = []
  const every = mutationsOf(present)
  // A key more in a selector is what other tools do add.
  const chosen = new Set([
    ...spread(every, 14, offset),
    ...every.filter(({ field }) => /\.team$|^spec\.claimRef$/.test(field)),
  ])
  for (const mutation of chosen) {
    if ((await mutate(child, mutation)) === false) continue
    const isPastDeadline = ({ isHealed, isTold }: Awaited<ReturnType<typeof look>>) => isHealed || isTold
    const found = await eventually(() => look(mutation), isPastDeadline, { withinMs }).catch(() => look(mutation))
    if (found.isHealed) continue
    if (!found.isTold) unhealed.push(`${what}, ${mutation.name}: ${JSON.stringify(found.conditions)}`)
    await putBack(child, present)
    await it.when(name, seen => condition(seen, 'Ready')?.status === 'True')
  }
  expect(unhealed).toEqual([])
  expect(it.workload().postgres.initialised.size).toBe(initialised)
  expect((await it.database(name))?.status?.volume).toMatchObject({ uid: database.status?.volume?.uid })
}

describe('a change by another manager to', () => {
  const parts = [
    'Service',
    'NetworkPolicy',
    'PodDisruptionBudget',
    'configuration',
    'route',
    'StatefulSet',
    'tls',
    'credentials',
    'Pod',
    'PersistentVolumeClaim',
    'PersistentVolume',
  ]
  test.each(parts.map((what, index) => [what, index] as const))(
    'the %s is put back',
    (what, index) => sweep(`swept${what.toLowerCase()}`, what, index),
    isSoak ? 1_800_000 : 120_000,
  )
})
