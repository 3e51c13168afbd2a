/**
 * Stands between an operator and the world, so that a test decides what becomes of each effect: of each write to the cluster
 * and each statement in Postgres. Events, Leases and the record of the clock are no effects: they depend on the time.
 */
import type { Cluster, KindName } from '../../cluster/index.ts'
import { clockRecordName } from '../clock/guard.ts'
import type { PostgresAccess } from '../member/postgres/access.ts'

type Interceptor = {
  /** Runs a read, or a write that is no effect. */
  read<T>(read: () => Promise<T>): Promise<T>
  /** Runs an effect, such as `create Secret db-1`. */
  effect<T>(name: string, write: () => Promise<T>): Promise<T>
}

/** Both ways out of an operator. */
export type Intercepted = { cluster(inner: Cluster): Cluster; access(inner: PostgresAccess): PostgresAccess }

const uncounted = new Set<KindName>(['Event', 'Lease'])

export function intercepted({ read, effect }: Interceptor): Intercepted {
  const writing = <T>(verb: string, kind: KindName, name: string, write: () => Promise<T>): Promise<T> =>
    uncounted.has(kind) || name === clockRecordName ? read(write) : effect(`${verb} ${kind} ${name}`, write)
  return {
    cluster: inner => ({
      get: (kind, key) => read(() => inner.get(kind, key)),
      list: (kind, options) => read(() => inner.list(kind, options)),
      watch: (kind, options) => inner.watch(kind, options),
      logs: (pod, options) => read(() => inner.logs(pod, options)),
      create: (kind, draft) => writing('create', kind, draft.metadata.name, () => inner.create(kind, draft)),
      apply: (kind, draft) => writing('apply', kind, draft.metadata.name, () => inner.apply(kind, draft)),
      replace: (kind, object) => writing('replace', kind, object.metadata.name, () => inner.replace(kind, object)),
      replaceStatus: (kind, object) =>
        writing('status of', kind, object.metadata.name, () => inner.replaceStatus(kind, object)),
      delete: (kind, key, options) => writing('delete', kind, key.name, () => inner.delete(kind, key, options)),
    }),
    access: inner => ({
      observe: (target, options, signal) => read(() => inner.observe(target, options, signal)),
      measure: (target, signal) => read(() => inner.measure(target, signal)),
      measureVolume: (target, signal) => read(() => inner.measureVolume(target, signal)),
      login: (target, password, signal) => read(() => inner.login(target, password, signal)),
      ensureRoles: async (target, desired, signal, { opens = false } = {}) => {
        await effect('ensure roles', () => inner.ensureRoles(target, desired, signal))
        if (opens) await effect('open', () => inner.open(target, desired, signal))
      },
      detach: (target, signal) => effect('detach', () => inner.detach(target, signal)),
      // What is done meanwhile counts by itself.
      withRolesLocked: (target, work, signal) => read(() => inner.withRolesLocked(target, work, signal)),
      open: (target, desired, signal) => effect('open', () => inner.open(target, desired, signal)),
      reload: (target, signal) => effect('reload', () => inner.reload(target, signal)),
      checkpoint: (target, signal) => effect('checkpoint', () => inner.checkpoint(target, signal)),
    }),
  }
}
