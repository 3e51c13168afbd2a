/**
 * Crashes an operator at a chosen point. After the n-th effect the operator does not get the result and can send
 * nothing, as if its process had been killed.
 */
import { ClusterError } from '../../cluster/index.ts'
import { type Intercepted, intercepted } from './effects.ts'

export type CrashPoint = Intercepted & {
  readonly effects: string[]
  readonly hasCrashed: boolean
}

/** `after`: the number of the last effect. Infinity only counts the effects. */
export function createCrashPoint(after = Number.POSITIVE_INFINITY): CrashPoint {
  const effects: string[] = []
  let hasCrashed = false
  const requireRunning = () => {
    if (hasCrashed) throw new ClusterError('Unavailable', 'the operator has crashed')
  }
  const both = intercepted({
    read: async read => {
      requireRunning()
      const result = await read()
      requireRunning()
      return result
    },
    effect: async (name, write) => {
      requireRunning()
      effects.push(name)
      if (effects.length >= after) hasCrashed = true
      const result = await write()
      requireRunning()
      return result
    },
  })
  return {
    ...both,
    effects,
    get hasCrashed() {
      return hasCrashed
    },
  }
}
