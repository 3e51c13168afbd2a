/**
 * What the sweep does to an operator at its n-th effect: crashes it, lets its caches lag, freezes it while another one
 * leads, refuses what it writes. Each resolves once the scenario is done all the same.
 */
import { ClusterError, type ClusterErrorReason, type KindName } from '../../cluster/index.ts'
import { fenced } from '../../controller/index.ts'
import { PostgresError } from '../postgres/administrator.ts'
import { type Activity, createActivity } from './activity.ts'
import { type Intercepted, intercepted } from './effects.ts'
import type { WorkloadStep } from './fake-workload.ts'
import { createFuse } from './fuse.ts'
import { eventually } from './installation.ts'
import { createLaggingWatch } from './lagging-watch.ts'
import { rememberLists } from './older-lists.ts'
import type { Disturbance, World } from './swept-run.ts'

/** What was refused is tried again ever more rarely. */
const doneWithinMs = 30_000

const done = ({ isDone }: World): Promise<boolean> => eventually(isDone, is => is, { withinMs: doneWithinMs })

/** Counts effects, and calls `before` for each with its number. */
function counting(before: (number: number, name: string) => void | Promise<void>, activity?: Activity) {
  const effects: string[] = []
  const both = intercepted({
    read: read => read(),
    effect: async (name, write) => {
      activity?.touch()
      effects.push(name)
      await before(effects.length, name)
      try {
        return await write()
      } finally {
        activity?.touch()
      }
    },
  })
  return { ...both, effects }
}

/** The operator is killed after its n-th effect, and another one started. */
export const crash =
  (n: number): Disturbance =>
  async world => {
    const fuse = createFuse(n)
    const first = await world.start(fuse)
    await world.act()
    await eventually(async () => fuse.isBlown || (await world.isDone()))
    await first.stop()
    if (fuse.isBlown) {
      const next = await world.start()
      await done(world)
      await next.stop()
    }
    return { effects: fuse.effects, happened: fuse.isBlown }
  }

export const undisturbed: Disturbance = crash(Number.POSITIVE_INFINITY)

/** At the n-th effect the caches of these kinds fall behind, until the operator does nothing more; n of 0: before all of them. */
export const staleCaches =
  (
    n: number,
    { kinds, behind, how }: { kinds: (kind: KindName) => boolean; behind?: number; how: 'events' | 'relist' },
  ): Disturbance =>
  async world => {
    const activity = createActivity()
    const watch = createLaggingWatch()
    let happened = false
    const lag = () => {
      happened = true
      watch.lag(kinds, behind)
    }
    const between = counting(number => {
      if (number === n) lag()
    }, activity)
    const operator = await world.start({ ...between, cluster: inner => watch.cluster(between.cluster(inner)) })
    if (n === 0) {
      await operator.synced()
      lag()
    }
    await world.act()
    await eventually(async () => happened || (await world.isDone()))
    await activity.quiet()
    watch.catchUp(how)
    await activity.quiet()
    await done(world)
    return { effects: between.effects, happened }
  }

/** The leader is killed after its n-th effect; the caches of the one that takes over lack what came after effect n - behind. */
export const staleStandby =
  (n: number, behind: number): Disturbance =>
  async world => {
    const activity = createActivity()
    const watch = createLaggingWatch()
    const fuse = createFuse(n)
    let older: Awaited<ReturnType<typeof rememberLists>> | undefined
    const remembering = counting(async number => {
      if (number === Math.max(1, n - behind)) older = await rememberLists(world.installation.cluster)
    })
    const first = await world.start({
      cluster: inner => remembering.cluster(fuse.cluster(inner)),
      access: inner => remembering.access(fuse.access(inner)),
    })
    await world.act()
    await eventually(async () => fuse.isBlown || (await world.isDone()))
    await first.stop()
    const result = { effects: fuse.effects, happened: fuse.isBlown }
    if (!fuse.isBlown) return result
    const between = counting(() => {}, activity)
    watch.lag(() => true)
    await world.start({ ...between, cluster: inner => watch.cluster(older?.(between.cluster(inner)) ?? inner) })
    await activity.quiet()
    watch.catchUp('events')
    await activity.quiet()
    await done(world)
    return result
  }

/**
 * What is created late, after its owner is done with, and costs no data: the lock of a restore's old Postgres, which the next
 * resync deletes; and the second object for a volume's storage, which stays, retained, since nothing says that nobody wants it.
 */
const isLeftAlone = (name: string): boolean => /^create (Pod|PersistentVolume) /.test(name)

/**
 * Before its n-th effect the leader is frozen; another one takes over and finishes. Then the first one goes on: what it has
 * sent reaches the cluster now, and it sends nothing more, since the fence looks at its lease.
 */
export const frozenLeader =
  (n: number): Disturbance =>
  async world => {
    const activity = createActivity()
    const watch = createLaggingWatch()
    const thawed = Promise.withResolvers<void>()
    let isFrozen = false
    let isLeader = true
    const effects: string[] = []
    const pause = async () => {
      if (isFrozen) await thawed.promise
    }
    const between: Intercepted = intercepted({
      read: async read => {
        await pause()
        const result = await read()
        await pause()
        return result
      },
      effect: async (name, write) => {
        if (!isLeader) throw new ClusterError('Unavailable', 'not the leader')
        effects.push(name)
        if (effects.length === n && !isLeftAlone(name)) {
          isFrozen = true
          watch.lag(() => true)
        }
        await pause()
        activity.touch()
        return write()
      },
    })
    const first = await world.start({
      ...between,
      cluster: inner => fenced(watch.cluster(between.cluster(inner)), new AbortController().signal, () => isLeader),
    })
    await world.act()
    await eventually(async () => isFrozen || (await world.isDone()))
    if (!isFrozen) return { effects, happened: false }
    await world.start(counting(() => {}, activity))
    await done(world)
    isLeader = false
    isFrozen = false
    thawed.resolve()
    void first.stop()
    await activity.quiet()
    watch.catchUp('events')
    await activity.quiet()
    await done(world)
    return { effects, happened: true }
  }

const inPostgres = new Set(['ensure roles', 'open', 'detach', 'reload', 'checkpoint'])

/** Words of a refusal by the sweep, to be found in a condition. */
const refusalText = 'refused by the sweep'

const refusalOf = (name: string, reason: ClusterErrorReason): Error =>
  inPostgres.has(name)
    ? new PostgresError('network', refusalText, 'ECONNRESET')
    : new ClusterError(reason, `${name}: ${refusalText}`)

/** A claim that may not grow, or a snapshot that may not be made, ends an operation with a reason: other scenarios have that. */
const isAnswer = (name: string): boolean => /^(replace PersistentVolumeClaim|create VolumeSnapshot) /.test(name)
const reasonFor = (name: string, reason: ClusterErrorReason): ClusterErrorReason =>
  isAnswer(name) && reason !== 'Unavailable' ? 'TooManyRequests' : reason

/** Not that a status, a Task or something of the installation could not be written: there, the log says so. */
const isReportable = (name: string): boolean =>
  !/^status of| Task | espalier-/.test(name) && !isAnswer(name) && !inPostgres.has(name)

/** The n-th effect is refused once. `isDone`: it happens, and only the answer is lost. */
export const refusedOnce =
  (n: number, reason: ClusterErrorReason, { isDone = false } = {}): Disturbance =>
  async world => {
    const effects: string[] = []
    const between = intercepted({
      read: read => read(),
      effect: async (name, write) => {
        effects.push(name)
        if (effects.length !== n) return write()
        if (isDone) await write()
        throw refusalOf(name, reasonFor(name, reason))
      },
    })
    await world.start(between)
    await world.act()
    await done(world)
    return { effects, happened: effects.length >= n }
  }

/** The n-th effect, and every one of its name, is refused until the operator has said so in a condition and tried again. */
export const refusedForLong =
  (n: number, reason: ClusterErrorReason): Disturbance =>
  async world => {
    const effects: string[] = []
    let refused: string | undefined
    let refusals = 0
    let isReported = false
    const isOver = () => refusals >= 2 && (isReported || !isReportable(refused ?? ''))
    const between = intercepted({
      read: read => read(),
      effect: async (name, write) => {
        effects.push(name)
        if (effects.length === n) refused = name
        if (name !== refused || isOver()) return write()
        refusals++
        throw refusalOf(name, reasonFor(name, reason))
      },
    })
    await world.start({
      ...between,
      cluster: inner =>
        between.cluster({
          ...inner,
          replaceStatus: (kind, object) => {
            isReported ||= JSON.stringify(object).includes(refusalText)
            return inner.replaceStatus(kind, object)
          },
        }),
    })
    await world.act()
    await done(world).catch(error => {
      world.complaints.push(`${refused} was refused ${refusals} times, ${isReported ? 'as' : 'and no'} condition says`)
      throw error
    })
    return { effects, happened: refused !== undefined }
  }

/** What the StatefulSet controller and the kubelet do in these steps, they do only when the operator does nothing more. */
export const slowWorkload =
  (steps: readonly WorkloadStep[]): Disturbance =>
  async world => {
    const activity = createActivity()
    world.workload.slow(async step => {
      if (steps.includes(step)) await activity.quiet()
    })
    const between = counting(() => {}, activity)
    await world.start(between)
    await world.act()
    await done(world)
    return { effects: between.effects, happened: true }
  }
