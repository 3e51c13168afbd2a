/** Prevents writes by a process that lost its leadership, because the state that it decided on may be outdated. */
import { type Cluster, ClusterError } from '../cluster/index.ts'

/**
 * Returns the cluster, which refuses every write after the signal has aborted or `isLeader` returns false. Pass
 * `isLeader` if there is a lease: it reads the clock at the moment of the write. A process that was frozen needs this,
 * because its timers run late.
 * @throws ClusterError `Unavailable` from every write after that
 */
export function fenced(cluster: Cluster, signal: AbortSignal, isLeader: () => boolean = () => true): Cluster {
  const writing = async <Result>(write: () => Promise<Result>): Promise<Result> => {
    if (signal.aborted || !isLeader())
      throw new ClusterError('Unavailable', 'this process may not write: not the leader')
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
