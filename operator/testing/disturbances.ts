/**
 * The disturbances of the sweep at an operator's n-th effect: crash the operator, delay its caches, freeze it while
 * another operator leads, or refuse its writes. Each disturbance resolves when the scenario has still completed.
 */
import { ClusterError, type ClusterErrorReason, type KindName } from '../../cluster/index.ts'
import { fenced } from '../../controller/index.ts'
import { PostgresError } from '../postgres/administrator.ts'
import { type Activity, createActivity } from './activity.ts'
import { createCrashPoint } from './crash-point.ts'
import { type Intercepted, intercepted } from './effects.ts'
import type { WorkloadStep } from './fake-workload.ts'
import { eventually } from './installation.ts'
import { createLaggingWatch } from './lagging-watch.ts'
import { rememberLists } from './older-lists.ts'
import type { Disturbance, RunControl } from './swept-run.ts'

/** Long enough for retries of refused writes, whose delay grows. */
const doneWithinMs = 30_000

const done = ({ isDone }: RunControl): Promise<boolean> => eventually(isDone, is => is, { withinMs: doneWithinMs })

/** Counts effects. Calls `before` for each effect with its number. */
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

/** The operator is killed after its n-th effect, and another operator starts. */
export const crash =
  (n: number): Disturbance =>
  async control => {
    const crashPoint = createCrashPoint(n)
    const first = await control.start(crashPoint)
    await control.act()
    await eventually(async () => crashPoint.hasCrashed || (await control.isDone()))
    await first.stop()
    if (crashPoint.hasCrashed) {
      const next = await control.start()
      await done(control)
      await next.stop()
    }
    return { effects: crashPoint.effects, happened: crashPoint.hasCrashed }
  }

export const undisturbed: Disturbance = crash(Number.POSITIVE_INFINITY)

/**
 * At the n-th effect the caches of these kinds start to lag, until the operator is idle. If n is 0, they lag from the
 * start.
 */
export const staleCaches =
  (
    n: number,
    { kinds, behind, how }: { kinds: (kind: KindName) => boolean; behind?: number; how: 'events' | 'relist' },
  ): Disturbance =>
  async control => {
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
    const operator = await control.start({ ...between, cluster: inner => watch.cluster(between.cluster(inner)) })
    if (n === 0) {
      await operator.synced()
      lag()
    }
    await control.act()
    await eventually(async () => happened || (await control.isDone()))
    await activity.quiet()
    watch.catchUp(how)
    await activity.quiet()
    await done(control)
    return { effects: between.effects, happened }
  }

/** The leader is killed after its n-th effect. Its successor's caches lack everything after effect n - behind. */
export const staleStandby =
  (n: number, behind: number): Disturbance =>
  async control => {
    const activity = createActivity()
    const watch = createLaggingWatch()
    const crashPoint = createCrashPoint(n)
    let older: Awaited<ReturnType<typeof rememberLists>> | undefined
    const remembering = counting(async number => {
      if (number === Math.max(1, n - behind)) older = await rememberLists(control.installation.cluster)
    })
    const first = await control.start({
      cluster: inner => remembering.cluster(crashPoint.cluster(inner)),
      access: inner => remembering.access(crashPoint.access(inner)),
      archive: inner => remembering.archive(crashPoint.archive(inner)),
    })
    await control.act()
    await eventually(async () => crashPoint.hasCrashed || (await control.isDone()))
    await first.stop()
    const result = { effects: crashPoint.effects, happened: crashPoint.hasCrashed }
    if (!crashPoint.hasCrashed) return result
    const between = counting(() => {}, activity)
    watch.lag(() => true)
    await control.start({ ...between, cluster: inner => watch.cluster(older?.(between.cluster(inner)) ?? inner) })
    await activity.quiet()
    watch.catchUp('events')
    await activity.quiet()
    await done(control)
    return result
  }

/**
 * Objects that may be created late, after their owner has ended, without loss of data. The lock of a restore's old
 * Postgres: the next resync deletes it. The second object for a volume's storage: it is retained, because it is unknown
 * whether it is still needed.
 */
const isIgnored = (name: string): boolean => /^create (Pod|PersistentVolume) /.test(name)

/**
 * Before its n-th effect the leader is frozen. Another operator takes over and finishes. Then the first one continues.
 * Its pending request now reaches the cluster. It sends nothing else, because the fence checks its lease.
 */
export const frozenLeader =
  (n: number): Disturbance =>
  async control => {
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
        if (effects.length === n && !isIgnored(name)) {
          isFrozen = true
          watch.lag(() => true)
        }
        await pause()
        activity.touch()
        return write()
      },
    })
    const first = await control.start({
      ...between,
      cluster: inner => fenced(watch.cluster(between.cluster(inner)), new AbortController().signal, () => isLeader),
    })
    await control.act()
    await eventually(async () => isFrozen || (await control.isDone()))
    if (!isFrozen) return { effects, happened: false }
    await control.start(counting(() => {}, activity))
    await done(control)
    isLeader = false
    isFrozen = false
    thawed.resolve()
    void first.stop()
    await activity.quiet()
    watch.catchUp('events')
    await activity.quiet()
    await done(control)
    return { effects, happened: true }
  }

const inPostgres = new Set(['ensure roles', 'open', 'detach', 'reload', 'checkpoint'])

/** The text of the sweep's refusals. The test finds it in a condition. */
const refusalText = 'refused by the sweep'

const refusalOf = (name: string, reason: ClusterErrorReason): Error =>
  inPostgres.has(name)
    ? new PostgresError('network', refusalText, 'ECONNRESET')
    : new ClusterError(reason, `${name}: ${refusalText}`)

/**
 * If a claim may not grow, or a snapshot may not be taken, the operation ends with a reason. Other scenarios test that.
 */
const isAnswer = (name: string): boolean => /^(replace PersistentVolumeClaim|create VolumeSnapshot) /.test(name)
const reasonFor = (name: string, reason: ClusterErrorReason): ClusterErrorReason =>
  isAnswer(name) && reason !== 'Unavailable' ? 'TooManyRequests' : reason

/**
 * Excludes failed writes of a status, a Task or an object of the installation, which are only logged. Also excludes the
 * deletion of a deleted database's remaining objects, which an Event reports.
 */
const isReportable = (name: string): boolean =>
  !/^status of| Task | espalier-|^delete an archive|^delete ConfigMap deleted-/.test(name) &&
  !isAnswer(name) &&
  !inPostgres.has(name)

/** The n-th effect is refused once. `isDone`: the effect happens, and only its response is lost. */
export const refusedOnce =
  (n: number, reason: ClusterErrorReason, { isDone = false } = {}): Disturbance =>
  async control => {
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
    await control.start(between)
    await control.act()
    await done(control)
    return { effects, happened: effects.length >= n }
  }

/**
 * Refuses the n-th effect, and every effect with its name, until the operator has reported it in a condition and
 * retried.
 */
export const refusedForLong =
  (n: number, reason: ClusterErrorReason): Disturbance =>
  async control => {
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
    await control.start({
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
    await control.act()
    await done(control).catch(error => {
      control.complaints.push(
        `${refused} was refused ${refusals} times, ${isReported ? 'as' : 'and no'} condition says`,
      )
      throw error
    })
    return { effects, happened: refused !== undefined }
  }

/** In these steps the StatefulSet controller and the kubelet act only when the operator is idle. */
export const slowWorkload =
  (steps: readonly WorkloadStep[]): Disturbance =>
  async control => {
    const activity = createActivity()
    control.workload.slow(async step => {
      if (steps.includes(step)) await activity.quiet()
    })
    const between = counting(() => {}, activity)
    await control.start(between)
    await control.act()
    await done(control)
    return { effects: between.effects, happened: true }
  }
