/** For crash tests: a runtime that crashes after a number of writes to the cluster and is then started again. */
import { createCrashPoint } from '../../../operator/testing/crash-point.ts'
import type { Store } from '../../store/index.ts'
import type { Runtime } from '../index.ts'
import { startTestRuntime, until } from './runtime.ts'

export async function startCrashingRuntime(store: Store, directory: string, after: number) {
  const crashPoint = createCrashPoint(after)
  let runtime: Runtime | undefined = await startTestRuntime(store, {
    directory,
    cluster: crashPoint.cluster(store.connect('runtime')),
  }).catch(error => {
    if (!crashPoint.hasCrashed) throw error
    return undefined
  })
  let isNew = false
  return {
    /** The number of writes before the crash. */
    effects: crashPoint.effects,
    /** Waits until the condition holds. After a crash, starts another runtime. */
    eventually: (what: string, condition: () => boolean | Promise<boolean>): Promise<void> =>
      until(
        async () => {
          if (crashPoint.hasCrashed && !isNew) {
            isNew = true
            await runtime?.stop()
            runtime = await startTestRuntime(store, { directory })
          }
          return condition()
        },
        20_000,
        `${what}, with a crash after ${crashPoint.effects.at(-1)}`,
      ),
    stop: async () => runtime?.stop(),
  }
}
