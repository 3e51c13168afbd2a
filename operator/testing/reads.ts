/** Counts an operator's reads of the cluster, so that a test can wait for its passes and for their end. */
import type { Cluster, KindName } from '../../cluster/index.ts'
import { createActivity } from './activity.ts'

export function createReads() {
  const activity = createActivity()
  const waiting: { object: string; remaining: number; resolve: () => void }[] = []
  const note = (object: string) => {
    for (const one of waiting) if (one.object === object && --one.remaining === 0) one.resolve()
  }
  const touching = async <T>(call: () => Promise<T>): Promise<T> => {
    activity.touch()
    try {
      return await call()
    } finally {
      activity.touch()
    }
  }
  return {
    cluster: (inner: Cluster): Cluster => ({
      ...inner,
      get: (kind, key) =>
        touching(async () => {
          const found = await inner.get(kind, key)
          note(`${kind} ${key.name}`)
          return found
        }),
      list: (kind, options) => touching(() => inner.list(kind, options)),
      replaceStatus: (kind, object) => touching(() => inner.replaceStatus(kind, object)),
      delete: (kind, key, options) => touching(() => inner.delete(kind, key, options)),
    }),
    /** Resolves when the operator has read the object this many more times. */
    of: (kind: KindName, name: string, times = 1): Promise<void> =>
      new Promise(resolve => waiting.push({ object: `${kind} ${name}`, remaining: times, resolve })),
    /** Resolves when the operator is idle. */
    quiet: () => activity.quiet(),
  }
}
