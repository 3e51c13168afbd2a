/** Measures every request to the cluster by verb, kind and outcome (`ok`, or the reason of the error). */
import { type Cluster, isClusterError } from '../cluster/index.ts'
import { type Clock, systemClock } from '../cluster/informer/index.ts'
import type { Metrics } from './metrics.ts'

const outcomeOf = (error: unknown): string => (isClusterError(error) ? error.reason : 'Error')

export function instrumented(cluster: Cluster, metrics: Metrics, clock: Clock = systemClock): Cluster {
  const measured = async <Result>(verb: string, kind: string, request: () => Promise<Result>): Promise<Result> => {
    const startedAt = clock.now()
    let outcome = 'ok'
    try {
      return await request()
    } catch (error) {
      outcome = outcomeOf(error)
      throw error
    } finally {
      metrics.requested(verb, kind, outcome, clock.now() - startedAt)
    }
  }
  const measuredStream = async function* <T>(kind: string, stream: AsyncIterable<T>): AsyncIterable<T> {
    const startedAt = clock.now()
    let outcome = 'ok'
    try {
      yield* stream
    } catch (error) {
      outcome = outcomeOf(error)
      throw error
    } finally {
      metrics.requested('watch', kind, outcome, clock.now() - startedAt)
    }
  }
  return {
    get: (kind, key) => measured('get', kind, () => cluster.get(kind, key)),
    list: (kind, options) => measured('list', kind, () => cluster.list(kind, options)),
    watch: (kind, options) => measuredStream(kind, cluster.watch(kind, options)),
    logs: (pod, options) => measured('logs', 'Pod', () => cluster.logs(pod, options)),
    create: (kind, object) => measured('create', kind, () => cluster.create(kind, object)),
    replace: (kind, object) => measured('replace', kind, () => cluster.replace(kind, object)),
    apply: (kind, object) => measured('apply', kind, () => cluster.apply(kind, object)),
    replaceStatus: (kind, object) => measured('replaceStatus', kind, () => cluster.replaceStatus(kind, object)),
    delete: (kind, key, options) => measured('delete', kind, () => cluster.delete(kind, key, options)),
  }
}
