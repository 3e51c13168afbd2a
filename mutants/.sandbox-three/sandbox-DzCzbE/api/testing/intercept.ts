/** Puts faults and races into the way of a cluster's calls. */
// @ts-nocheck

import type { Cluster, KindName } from '../../cluster/index.ts'

type Operation = 'get' | 'list' | 'create' | 'replace' | 'delete'
/** Called before each operation; what it throws is the operation's outcome. */
type Before = (operation: Operation, kind: KindName) => void | Promise<void>

export type InterceptedCluster = Cluster & {
  before: Before | undefined
  /** While set, watches keep what they hear until it resolves. */
  silence: Promise<void> | undefined
  writes: number
}

/** The cluster, asking `before` first. */
export function intercepted(cluster: Cluster): InterceptedCluster {
  const self: InterceptedCluster = {
    before: undefined,
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
      return cluster.create(kind, object)
    },
    async replace(kind, object) {
      await self.before?.('replace', kind)
      self.writes++
      return cluster.replace(kind, object)
    },
    apply: (kind, object) => cluster.apply(kind, object),
    replaceStatus: (kind, object) => cluster.replaceStatus(kind, object),
    async delete(kind, key, options) {
      await self.before?.('delete', kind)
      self.writes++
      return cluster.delete(kind, key, options)
    },
    logs: (pod, options) => cluster.logs(pod, options),
  }
  return self
}
