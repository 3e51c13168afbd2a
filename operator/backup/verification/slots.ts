/**
 * Selects the backup that is verified next. The whole installation shares a few slots. The namespace with the fewest
 * running verifications is first, then the one whose last verification ended longest ago, then the earliest request.
 * Thousands of backups may wait. They are searched only if a slot is free, and only once after each change.
 */
import { keyOf, parseKey } from '../../../cluster/informer/index.ts'
import { type Backup, childNames } from '../../../crds/index.ts'
import type { Caches } from '../../caches.ts'
import { orderOf } from '../../objects/order.ts'
import { ownerKeyOf } from '../../objects/ownership.ts'
import { idOf } from '../id.ts'
import { isOfVerification } from './observe.ts'

/** The maximum number of running verifications. Each one reads a complete volume. */
const atOnce = 2

type Waiting = { key: string; namespace: string; order: string }
/**
 * `underWay`: the namespace of each running one. `endedAt`: when each namespace's last one ended, ms since the epoch.
 */
type Demand = { waiting: readonly Waiting[]; underWay: readonly string[]; endedAt: ReadonlyMap<string, number> }

/** Returns the keys of the backups that get the free slots, in order. Pure. Searches all waiting ones for each slot. */
export function nextOf({ waiting, underWay, endedAt }: Demand, slots: number): string[] {
  const counts = new Map<string, number>()
  const count = (namespace: string) => counts.set(namespace, (counts.get(namespace) ?? 0) + 1)
  for (const namespace of underWay) count(namespace)
  const isBefore = (one: Waiting, other: Waiting): boolean => {
    const fewer = (counts.get(one.namespace) ?? 0) - (counts.get(other.namespace) ?? 0)
    const earlier = (endedAt.get(one.namespace) ?? 0) - (endedAt.get(other.namespace) ?? 0)
    return fewer !== 0 ? fewer < 0 : earlier !== 0 ? earlier < 0 : one.order < other.order
  }
  const chosen = new Set<string>()
  for (let free = slots - underWay.length; free > 0; free--) {
    let first: Waiting | undefined
    for (const one of waiting) if (!chosen.has(one.key) && (first === undefined || isBefore(one, first))) first = one
    if (first === undefined) break
    chosen.add(first.key)
    count(first.namespace)
  }
  return [...chosen]
}

export type VerificationSlots = {
  /** Also true for a running verification. */
  hasSlot(backup: Backup): boolean
  /** The keys of the backups whose verification is to start. */
  next(): readonly string[]
  stop(): void
}

const isPending = (backup: Backup | undefined): boolean => backup?.status?.verification === 'pending'

export function createVerificationSlots(caches: Pick<Caches, 'backups' | 'networkPolicies'>): VerificationSlots {
  const { backups, networkPolicies } = caches
  const endedAt = new Map<string, number>()
  let known: readonly string[] | undefined

  /** The network policy is the first object of a verification to be created, and the last to be deleted. */
  const underWay = (): Backup[] =>
    networkPolicies.byIndex('component', 'verification').flatMap(policy => {
      const backup = backups.get(parseKey(ownerKeyOf(policy) ?? ''))
      const id = backup && idOf(backup)
      if (backup === undefined || id === undefined || !isPending(backup)) return []
      const isIts = policy.metadata.name === childNames.verification(id) && isOfVerification(backup, policy)
      return isIts ? [backup] : []
    })

  const next = (): readonly string[] => {
    const begun = underWay()
    if (begun.length >= atOnce) return []
    if (known !== undefined) return known
    const keys = new Set(begun.map(keyOf))
    const waiting = backups.byIndex('verification', 'pending').flatMap(backup => {
      const key = keyOf(backup)
      return keys.has(key) ? [] : [{ key, namespace: backup.metadata.namespace ?? '', order: orderOf(backup) }]
    })
    known = nextOf({ waiting, underWay: begun.map(({ metadata }) => metadata.namespace ?? ''), endedAt }, atOnce)
    return known
  }

  const unsubscribe = [
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
    hasSlot: backup => {
      const key = keyOf(backup)
      return underWay().some(one => keyOf(one) === key) || next().includes(key)
    },
    next,
    stop: () => {
      for (const end of unsubscribe) end()
    },
  }
}
