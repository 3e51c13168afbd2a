/**
 * Whose copy is checked next: there are few places for the whole installation, and many tenants. The namespace that has the fewest checks
 * under way comes first, then the one whose last check ended longest ago, then who asked first. There may be thousands that wait: while no
 * place is free nobody looks through them, and else once for every change.
 */
import { keyOf, parseKey } from '../../../cluster/informer/index.ts'
import { type Backup, childNames } from '../../../crds/index.ts'
import type { Caches } from '../../caches.ts'
import { placeOf } from '../../objects/order.ts'
import { ownerKeyOf } from '../../objects/ownership.ts'
import { idOf } from '../id.ts'
import { isOfVerification } from './observe.ts'

/** Each reads a whole volume. */
const atOnce = 2

type Waiting = { key: string; namespace: string; place: string }
/** `underWay`: the namespace of each. `endedAt`: of the last check of a namespace, in ms since the epoch. */
type Demand = { waiting: readonly Waiting[]; underWay: readonly string[]; endedAt: ReadonlyMap<string, number> }

/** Who gets the free places, in this order. Pure; it goes through those that wait once for each place. */
export function nextOf({ waiting, underWay, endedAt }: Demand, places: number): string[] {
  const counts = new Map<string, number>()
  const count = (namespace: string) => counts.set(namespace, (counts.get(namespace) ?? 0) + 1)
  for (const namespace of underWay) count(namespace)
  const isBefore = (one: Waiting, other: Waiting): boolean => {
    const fewer = (counts.get(one.namespace) ?? 0) - (counts.get(other.namespace) ?? 0)
    const earlier = (endedAt.get(one.namespace) ?? 0) - (endedAt.get(other.namespace) ?? 0)
    return fewer !== 0 ? fewer < 0 : earlier !== 0 ? earlier < 0 : one.place < other.place
  }
  const chosen = new Set<string>()
  for (let free = places - underWay.length; free > 0; free--) {
    let first: Waiting | undefined
    for (const one of waiting) if (!chosen.has(one.key) && (first === undefined || isBefore(one, first))) first = one
    if (first === undefined) break
    chosen.add(first.key)
    count(first.namespace)
  }
  return [...chosen]
}

export type Turns = {
  /** Also of one that is being checked. */
  isTurn(backup: Backup): boolean
  /** The keys of those that are to begin. */
  next(): readonly string[]
  stop(): void
}

const isPending = (backup: Backup | undefined): boolean => backup?.status?.verification === 'pending'

export function createTurns(caches: Pick<Caches, 'backups' | 'networkPolicies'>): Turns {
  const { backups, networkPolicies } = caches
  const endedAt = new Map<string, number>()
  let known: readonly string[] | undefined

  /** The fence is the first that a check has, and the last. */
  const underWay = (): Backup[] =>
    networkPolicies.byIndex('component', 'verification').flatMap(fence => {
      const backup = backups.get(parseKey(ownerKeyOf(fence) ?? ''))
      const id = backup && idOf(backup)
      if (backup === undefined || id === undefined || !isPending(backup)) return []
      const isIts = fence.metadata.name === childNames.verification(id) && isOfVerification(backup, fence)
      return isIts ? [backup] : []
    })

  const next = (): readonly string[] => {
    const begun = underWay()
    if (begun.length >= atOnce) return []
    if (known !== undefined) return known
    const keys = new Set(begun.map(keyOf))
    const waiting = backups.byIndex('verification', 'pending').flatMap(backup => {
      const key = keyOf(backup)
      return keys.has(key) ? [] : [{ key, namespace: backup.metadata.namespace ?? '', place: placeOf(backup) }]
    })
    known = nextOf({ waiting, underWay: begun.map(({ metadata }) => metadata.namespace ?? ''), endedAt }, atOnce)
    return known
  }

  const unfollow = [
    backups.onChange(({ object, previous }) => {
      if (isPending(object) || isPending(previous)) known = undefined
      const ended = Date.parse(object.status?.verificationResult?.endedAt ?? '')
      const { namespace = '' } = object.metadata
      if (ended > (endedAt.get(namespace) ?? 0)) endedAt.set(namespace, ended)
    }),
    networkPolicies.onChange(() => {
      known = undefined
    }),
  ]
  return {
    isTurn: backup => {
      const key = keyOf(backup)
      return underWay().some(one => keyOf(one) === key) || next().includes(key)
    },
    next,
    stop: () => {
      for (const end of unfollow) end()
    },
  }
}
