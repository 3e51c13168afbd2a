/**
 * Crashes an operator at will: after the n-th effect it neither learns what came of it nor reaches anything again, as if its
 * process had been killed.
 */
import { ClusterError } from '../../cluster/index.ts'
import { type Intercepted, intercepted } from './effects.ts'

export type Fuse = Intercepted & {
  readonly effects: string[]
  readonly isBlown: boolean
}

/** `after`: the number of the last effect that happens; Infinity counts only. */
export function createFuse(after = Number.POSITIVE_INFINITY): Fuse {
  const effects: string[] = []
  let isBlown = false
  const requireAlive = () => {
    if (isBlown) throw new ClusterError('Unavailable', 'the operator has crashed')
  }
  const both = intercepted({
    read: async read => {
      requireAlive()
      const result = await read()
      requireAlive()
      return result
    },
    effect: async (name, write) => {
      requireAlive()
      effects.push(name)
      if (effects.length >= after) isBlown = true
      const result = await write()
      requireAlive()
      return result
    },
  })
  return {
    ...both,
    effects,
    get isBlown() {
      return isBlown
    },
  }
}
