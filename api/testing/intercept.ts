/** Injects faults and races into the calls to a cluster. */
import type { Cluster, KindName } from '../../cluster/index.ts'

type Operation = 'get' | 'list' | 'create' | 'replace' | 'delete'
/** Called before or after each operation. An error that it throws becomes the operation's result. */
type Hook = (operation: Operation, kind: KindName) => void | Promise<void>

export type InterceptedCluster = Cluster & {
  before: Hook | undefined
  /** Called only after writes: the cluster has applied the write, but the response is lost. */
  after: Hook | undefined
  /** While set, watches delay their events until the promise resolves. */
  silence: Promise<void> | undefined
  writes: number
}

/** A cluster client that calls `before` first. */
export function intercepted(cluster: Cluster): InterceptedCluster {
  const self: InterceptedCluster = {
    before: undefined,
    after: undefined,
    silence: undefined,
    writes: 0,
    async get(kind, key) {
      await self.before?.('get', kind)
      return cluster.get(kind, key)
    },
    async list(kind, options) {
      await self.before?.('list', kind)
      return cluster.list(kind, options)
    },
    async *watch(kind, options) {
      for await (const event of cluster.watch(kind, options)) {
        await self.silence
        yield event
      }
    },
    async create(kind, object) {
      await self.before?.('create', kind)
      self.writes++
      const made = await cluster.create(kind, object)
      await self.after?.('create', kind)
      return made
    },
    async replace(kind, object) {
      await self.before?.('replace', kind)
      self.writes++
      const written = await cluster.replace(kind, object)
      await self.after?.('replace', kind)
      return written
    },
    apply: (kind, object) => cluster.apply(kind, object),
    replaceStatus: (kind, object) => cluster.replaceStatus(kind, object),
    async delete(kind, key, options) {
      await self.before?.('delete', kind)
      self.writes++
      await cluster.delete(kind, key, options)
      await self.after?.('delete', kind)
    },
    logs: (pod, options) => cluster.logs(pod, options),
  }
  return self
}
