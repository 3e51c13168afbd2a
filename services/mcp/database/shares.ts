/**
 * Limits how many connections of a database each caller uses at once. A caller never uses more connections than are
 * free, so its slow statements leave half of them to other callers. Of the waiting callers, the caller with the fewest
 * connections is next. Waiting time and queue length are limited.
 */
import { networkOf } from '../../http/address.ts'
import { AcquisitionTimeout } from '../../postgres/errors.ts'
import type { CallContext } from '../core/call.ts'

export type Shares = {
  /**
   * Waits for a slot. The returned function releases the slot.
   * @throws AcquisitionTimeout; the signal's abort reason
   */
  take(owner: string | undefined, signal: AbortSignal): Promise<() => void>
  /** Whether any call waits for a slot. */
  readonly isWaitedFor: boolean
}

type Waiter = { begin(): void }

/** The maximum number of waiting statements, of one caller and in total. */
const mostWaitingOfOne = 100
const mostWaiting = 1_000

/**
 * The key of the caller's share: the principal, or the address of a caller without a token. undefined: the only caller,
 * over stdio.
 */
export function ownerOf({ caller, address }: Pick<CallContext, 'caller' | 'address'>): string | undefined {
  if (caller.kind !== 'anyone') return caller.principal
  return address === undefined ? undefined : `address ${networkOf(address)}`
}

/** `waitMs`: how long a caller may wait for a slot. */
export function createShares(size: number, waitMs: number): Shares {
  const slots = new Map<string | undefined, number>()
  /** Waiting callers. The caller that received a slot last is at the end. */
  const waiting = new Map<string | undefined, Waiter[]>()
  let free = size
  let waiters = 0

  const slotsOf = (owner: string | undefined) => slots.get(owner) ?? 0
  const mayTake = (owner: string | undefined) => free > 0 && (owner === undefined || slotsOf(owner) < free)

  function next(): string | undefined {
    let found: string | undefined
    let fewest = Number.POSITIVE_INFINITY
    for (const owner of waiting.keys()) {
      if (!mayTake(owner) || slotsOf(owner) >= fewest) continue
      found = owner
      fewest = slotsOf(owner)
    }
    return found
  }

  function drop(owner: string | undefined, waiter: Waiter): void {
    const queue = waiting.get(owner) ?? []
    queue.splice(queue.indexOf(waiter), 1)
    waiters--
    waiting.delete(owner)
    if (queue.length > 0) waiting.set(owner, queue)
  }

  function give(owner: string | undefined): () => void {
    free--
    slots.set(owner, slotsOf(owner) + 1)
    let isBack = false
    return () => {
      if (isBack) return
      isBack = true
      free++
      const remaining = slotsOf(owner) - 1
      if (remaining === 0) slots.delete(owner)
      else slots.set(owner, remaining)
      serve()
    }
  }

  function serve(): void {
    while (waiters > 0) {
      const owner = next()
      const [waiter] = waiting.get(owner) ?? []
      if (waiter === undefined || !mayTake(owner)) return
      drop(owner, waiter)
      waiter.begin()
    }
  }

  function queued(owner: string | undefined, signal: AbortSignal): Promise<() => void> {
    const queue = waiting.get(owner) ?? []
    if (queue.length >= mostWaitingOfOne || waiters >= mostWaiting) return Promise.reject(new AcquisitionTimeout())
    return new Promise((resolve, reject) => {
      const end = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', abort)
      }
      const removeFromQueue = (reason: unknown) => {
        end()
        drop(owner, waiter)
        reject(reason)
      }
      const waiter: Waiter = {
        begin: () => {
          end()
          resolve(give(owner))
        },
      }
      const abort = () => removeFromQueue(signal.reason)
      const timer = setTimeout(() => removeFromQueue(new AcquisitionTimeout()), waitMs)
      signal.addEventListener('abort', abort, { once: true })
      queue.push(waiter)
      waiting.set(owner, queue)
      waiters++
    })
  }

  return {
    async take(owner, signal) {
      signal.throwIfAborted()
      return mayTake(owner) ? give(owner) : queued(owner, signal)
    },
    get isWaitedFor() {
      return waiters > 0
    },
  }
}
