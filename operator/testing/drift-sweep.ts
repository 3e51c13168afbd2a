/**
 * Changes every field of an owner's children as another manager (`make soak`; a sample in `make test`). The operator
 * must restore each field within 30 s, or a condition must name the field. The database must never report that it
 * serves while clients are refused.
 */
import { expect } from 'vitest'
import { type AnyObject, isClusterError, type KindName, type Kinds } from '../../cluster/index.ts'
import { canonicalJson, type ManagedDatabase } from '../../crds/index.ts'
import { isUpToDate } from '../objects/up-to-date.ts'
import { condition, type useInstallation } from './fixture.ts'
import { eventually } from './installation.ts'
import { type Mutation, mutationsOf } from './mutations.ts'
import { isSoak, spread } from './soak.ts'

const withinMs = 30_000
/** The timeout for one object. */
export const sweepMs = isSoak ? 1_800_000 : 120_000

export type Child = { kind: KindName; key: { namespace?: string; name: string } }

/**
 * The part of an object that the operator must maintain. Without other managers' labels and annotations of future pods.
 */
function ownPart(object: AnyObject) {
  const { spec, data, binaryData }: Record<string, unknown> = { ...object }
  const { template }: { template?: { metadata?: Record<string, Record<string, string>> } } = { ...(spec as object) }
  const { labels, annotations } = template?.metadata ?? {}
  const own = (entries: Record<string, string> = {}) =>
    Object.fromEntries(Object.entries(entries).filter(([name]) => name !== 'swept'))
  const metadata = template && { labels: own(labels), annotations: own(annotations) }
  const part = template ? { ...(spec as object), template: { ...template, metadata } } : spec
  return JSON.parse(JSON.stringify({ spec: part, data, binaryData }))
}
/**
 * Objects with only these fields to test. A certificate is created again instead of restored. On pods and claims only
 * labels and annotations can be changed with an effect, and on volumes only the claimRef.
 */
const labelsOnly = new Set(['tls', 'token', 'files', 'Pod', 'PersistentVolumeClaim', 'PersistentVolume'])
/**
 * Annotations of a pod record its configuration: a changed annotation causes at most a new pod. A claim's storage
 * request counts only until the claim has its volume.
 */
const unkept = new Set(['Pod', 'tls', 'token', 'files'])

/** The claim that the volume is reserved for. Other fields of a claimRef have no effect. */
function claimRefOf(volume: AnyObject): unknown {
  const { claimRef } = (volume as Kinds['PersistentVolume']).spec ?? {}
  return claimRef && [claimRef.namespace, claimRef.name, claimRef.uid]
}

function isAsBefore(what: string, before: AnyObject, now: AnyObject | undefined): boolean {
  if (now === undefined) return false
  const { labels, annotations } = before.metadata
  const { 'espalier.dev/asked-storage': _, ...retained } = annotations ?? {}
  if (!isUpToDate(now.metadata, { labels, ...(unkept.has(what) ? {} : { annotations: retained }) })) return false
  if (what === 'PersistentVolume') return canonicalJson(claimRefOf(now)) === canonicalJson(claimRefOf(before))
  return labelsOnly.has(what) || canonicalJson(ownPart(now)) === canonicalJson(ownPart(before))
}

/** Returns the function that sweeps one of the children that clients need to connect. */
export function useDriftSweep(it: ReturnType<typeof useInstallation>) {
  const get = async ({ kind, key }: Child): Promise<AnyObject | undefined> => it.cluster().get(kind, key)

  /**
   * Whether clients can reach Postgres or a service: as when it served, the Service selects the pod and the route names
   * the Service.
   */
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

  /** Writes like another manager. @returns false if the cluster refuses the write */
  async function mutate(child: Child, mutation: Mutation): Promise<AnyObject | false> {
    const otherClient = it.installation().store.connect('somebody')
    for (;;) {
      const found = await eventually(
        () => get(child),
        seen => seen !== undefined,
      )
      if (found === undefined) return false
      try {
        return await otherClient.replace(child.kind, mutation.of(found) as never)
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

  /** Restores an object by hand, like a user who has read a condition. */
  async function putBack(child: Child, { metadata, ...rest }: AnyObject): Promise<void> {
    const { resourceVersion, uid } = (await get(child))?.metadata ?? {}
    const object = { ...rest, metadata: { ...metadata, resourceVersion, uid } }
    await it
      .installation()
      .store.connect('somebody')
      .replace(child.kind, object as never)
  }

  const sweep = async (
    database: ManagedDatabase,
    children: Record<string, Child>,
    what: string,
    offset: number,
  ): Promise<void> => {
    const { name } = database.metadata
    const all = Object.entries(children)
    const before = Object.fromEntries(
      await Promise.all(all.map(async ([part, one]) => [part, await get(one)] as const)),
    )
    const [child, present] = [children[what], before[what]]
    if (child === undefined || present === undefined) throw new Error(`there is no ${what}`)
    const initialised = it.workload().postgres.initialised.size
    const check = async (mutation: Mutation) => {
      const [now, seen] = [await get(child), await it.database(name)]
      const isReady = condition(seen, 'Ready')?.status === 'True'
      const isHealed = isReady && isAsBefore(what, present, now) && (await isServed(children, before))
      return { isHealed, isReported: !isReady && names(seen, mutation), conditions: seen?.status?.conditions }
    }
    const unhealed: string[] = []
    const every = mutationsOf(present)
    // Other tools really add keys to selectors.
    const chosen = new Set([
      ...spread(every, 14, offset),
      ...every.filter(({ field }) => /\.team$|^spec\.claimRef$/.test(field)),
    ])
    for (const mutation of chosen) {
      if ((await mutate(child, mutation)) === false) continue
      const isPastDeadline = ({ isHealed, isReported }: Awaited<ReturnType<typeof check>>) => isHealed || isReported
      const found = await eventually(() => check(mutation), isPastDeadline, { withinMs }).catch(() => check(mutation))
      if (found.isHealed) continue
      if (!found.isReported) unhealed.push(`${what}, ${mutation.name}: ${JSON.stringify(found.conditions)}`)
      await putBack(child, present)
      await it.when(name, seen => condition(seen, 'Ready')?.status === 'True')
    }
    expect(unhealed).toEqual([])
    expect(it.workload().postgres.initialised.size).toBe(initialised)
    expect((await it.database(name))?.status?.volume).toMatchObject({ uid: database.status?.volume?.uid })
  }

  return sweep
}
