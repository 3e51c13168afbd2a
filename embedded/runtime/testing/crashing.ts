/** A runtime that crashes after so many writes to the cluster and is started again, for tests of what a crash leaves. */
import { createFuse } from '../../../operator/testing/fuse.ts'
import type { Store } from '../../store/index.ts'
import type { Runtime } from '../index.ts'
import { startTestRuntime, until } from './runtime.ts'

export async function startCrashingRuntime(store: Store, directory: string, after: number) {
  const fuse = createFuse(after)
  let runtime: Runtime | undefined = await startTestRuntime(store, {
    directory,
    cluster: fuse.cluster(store.connect('runtime')),
  }).catch(error => {
    if (!fuse.isBlown) throw error
    return undefined
  })
  let isNew = false
  return {
    /** What it wrote before it crashed. */
    effects: fuse.effects,
    /** Waits until the condition holds; once the runtime has crashed, another one goes on. */
    comesAbout: (what: string, condition: () => boolean | Promise<boolean>): Promise<void> =>
      until(
        async () => {
          if (fuse.isBlown && !isNew) {
            isNew = true
            await runtime?.stop()
            runtime = await startTestRuntime(store, { directory })
          }
          return condition()
        },
        20_000,
        `${what}, with a crash after ${fuse.effects.at(-1)}`,
      ),
    stop: async () => runtime?.stop(),
  }
}
