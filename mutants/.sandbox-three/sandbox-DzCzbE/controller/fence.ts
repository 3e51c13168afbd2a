/** Keeps a process that lost its leadership from writing: what it decided on may not be true any more. */
// @ts-nocheck

import { type Cluster, ClusterError } from '../cluster/index.ts'

/**
 * The cluster, refusing every write once the signal has aborted or `held` says no. Pass `held` where there is a lease:
 * it looks at the clock at the very moment of the write, which a process that was frozen needs, since its timers run late.
 * @throws ClusterError `Unavailable` from every write after that
 */
export function fenced(cluster: Cluster, signal: AbortSignal, held: () => boolean = () => true): Cluster {
  const writing = async <Result>(write: () => Promise<Result>): Promise<Result> => {
    if (signal.aborted || !held()) throw new ClusterError('Unavailable', 'this process may not write: not the leader')
    return await write()
  }
  return {
    get: (kind, key) => cluster.get(kind, key),
    list: (kind, options) => cluster.list(kind, options),
    watch: (kind, options) => cluster.watch(kind, options),
    logs: (pod, options) => cluster.logs(pod, options),
    create: (kind, object) => writing(() => cluster.create(kind, object)),
    replace: (kind, object) => writing(() => cluster.replace(kind, object)),
    apply: (kind, object) => writing(() => cluster.apply(kind, object)),
    replaceStatus: (kind, object) => writing(() => cluster.replaceStatus(kind, object)),
    delete: (kind, key, options) => writing(() => cluster.delete(kind, key, options)),
  }
}
