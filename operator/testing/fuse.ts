/**
 * Crashes an operator at will: after the n-th effect (a write to the cluster, a statement in Postgres) it neither learns
 * what came of it nor reaches anything again, as if its process had been killed. Events, Leases and the record of the clock do not count,
 * since they come and go by the clock.
 */
import { type Cluster, ClusterError, type KindName } from '../../cluster/index.ts'
import { clockRecordName } from '../clock/guard.ts'
import type { PostgresAccess } from '../member/postgres/access.ts'

export type Fuse = {
  cluster(inner: Cluster): Cluster
  access(inner: PostgresAccess): PostgresAccess
  readonly effects: string[]
  readonly isBlown: boolean
}

const uncounted = new Set<KindName>(['Event', 'Lease'])

/** `after`: the number of the last effect that happens; Infinity counts only. */
export function createFuse(after = Number.POSITIVE_INFINITY): Fuse {
  const effects: string[] = []
  let isBlown = false
  const dead = () => new ClusterError('Unavailable', 'the operator has crashed')

  const alive = async <T>(read: () => Promise<T>): Promise<T> => {
    if (isBlown) throw dead()
    const result = await read()
    if (isBlown) throw dead()
    return result
  }
  const effect = async <T>(name: string, write: () => Promise<T>): Promise<T> => {
    if (isBlown) throw dead()
    effects.push(name)
    if (effects.length >= after) isBlown = true
    const result = await write()
    if (isBlown) throw dead()
    return result
  }
  const writing = <T>(verb: string, kind: KindName, name: string, write: () => Promise<T>): Promise<T> =>
    uncounted.has(kind) || name === clockRecordName ? alive(write) : effect(`${verb} ${kind} ${name}`, write)

  return {
    effects,
    get isBlown() {
      return isBlown
    },
    cluster: inner => ({
      get: (kind, key) => alive(() => inner.get(kind, key)),
      list: (kind, options) => alive(() => inner.list(kind, options)),
      watch: (kind, options) => inner.watch(kind, options),
      logs: (pod, options) => alive(() => inner.logs(pod, options)),
      create: (kind, draft) => writing('create', kind, draft.metadata.name, () => inner.create(kind, draft)),
      apply: (kind, draft) => writing('apply', kind, draft.metadata.name, () => inner.apply(kind, draft)),
      replace: (kind, object) => writing('replace', kind, object.metadata.name, () => inner.replace(kind, object)),
      replaceStatus: (kind, object) =>
        writing('status of', kind, object.metadata.name, () => inner.replaceStatus(kind, object)),
      delete: (kind, key, options) => writing('delete', kind, key.name, () => inner.delete(kind, key, options)),
    }),
    access: inner => ({
      observe: (target, options, signal) => alive(() => inner.observe(target, options, signal)),
      measure: (target, signal) => alive(() => inner.measure(target, signal)),
      measureVolume: (target, signal) => alive(() => inner.measureVolume(target, signal)),
      login: (target, password, signal) => alive(() => inner.login(target, password, signal)),
      ensureRoles: async (target, desired, signal, { opens = false } = {}) => {
        await effect('ensure roles', () => inner.ensureRoles(target, desired, signal))
        if (opens) await effect('open', () => inner.open(target, desired, signal))
      },
      detach: (target, signal) => effect('detach', () => inner.detach(target, signal)),
      // What is done meanwhile counts by itself.
      withRolesLocked: (target, work, signal) => alive(() => inner.withRolesLocked(target, work, signal)),
      open: (target, desired, signal) => effect('open', () => inner.open(target, desired, signal)),
      reload: (target, signal) => effect('reload', () => inner.reload(target, signal)),
      checkpoint: (target, signal) => effect('checkpoint', () => inner.checkpoint(target, signal)),
    }),
  }
}
