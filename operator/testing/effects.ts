/**
 * Intercepts the effects of an operator, so that a test decides about each. An effect is a write to the cluster or a
 * statement in Postgres. Events, Leases and the clock's record are not effects, because they depend on the time.
 */
import type { Cluster, KindName } from '../../cluster/index.ts'
import type { ArchiveWays } from '../archive/ways.ts'
import { clockRecordName } from '../clock/guard.ts'
import type { PostgresAccess } from '../member/postgres/access.ts'

type Interceptor = {
  /** Runs a read, or a write that is not an effect. */
  read<T>(read: () => Promise<T>): Promise<T>
  /** Runs an effect, such as `create Secret db-1`. */
  effect<T>(name: string, write: () => Promise<T>): Promise<T>
}

/** All outgoing calls of an operator. */
export type Intercepted = {
  cluster(inner: Cluster): Cluster
  access(inner: PostgresAccess): PostgresAccess
  archive(inner: ArchiveWays): ArchiveWays
}

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
      dropInherited: (target, signal) => effect('detach', () => inner.dropInherited(target, signal)),
      // Effects during this effect are counted separately.
      withRolesLocked: (target, work, signal) => read(() => inner.withRolesLocked(target, work, signal)),
      open: (target, desired, signal) => effect('open', () => inner.open(target, desired, signal)),
      reload: (target, signal) => effect('reload', () => inner.reload(target, signal)),
      checkpoint: (target, signal) => effect('checkpoint', () => inner.checkpoint(target, signal)),
    }),
    archive: inner => ({
      status: (target, signal) => read(() => inner.status(target, signal)),
      job: (target, id, signal) => read(() => inner.job(target, id, signal)),
      begin: (target, id, signal) => effect('begin a durable backup', () => inner.begin(target, id, signal)),
      end: (target, id, signal) => effect('end a durable backup', () => inner.end(target, id, signal)),
      deleteBackup: (location, id, signal) =>
        effect('delete from the archive', () => inner.deleteBackup(location, id, signal)),
      // Their number depends on the time, so they are not effects.
      deleteWal: (location, before, signal) => read(() => inner.deleteWal(location, before, signal)),
      deleteAll: (location, signal) => effect('delete an archive', () => inner.deleteAll(location, signal)),
    }),
  }
}
