/**
 * Who may use how many of a database's connections at once. Nobody gets more than stay free for others, so that one caller's slow statements leave half of them; of those who wait,
 * whoever has fewest is next. Waiting has an end, and so have its places.
 */
import { networkOf } from '../../http/address.ts'
import { AcquisitionTimeout } from '../../postgres/errors.ts'
import type { CallContext } from '../core/call.ts'

export type Shares = {
  /**
   * Waits for a place, which the caller gives back by what this resolves to.
   * @throws AcquisitionTimeout; what the signal is aborted with
   */
  take(owner: string | undefined, signal: AbortSignal): Promise<() => void>
  /** Whether somebody waits for a place. */
  readonly isWaitedFor: boolean
}

type Waiter = { begin(): void }

/** Statements that one caller may have waiting, and all together. */
const mostWaitingOfOne = 100
const mostWaiting = 1_000

/** Whose share a call takes from: of callers without a token each address has one. undefined: of the only caller there is, over stdio. */
export function ownerOf({ caller, address }: Pick<CallContext, 'caller' | 'address'>): string | undefined {
  if (caller.kind !== 'anyone') return caller.principal
  return address === undefined ? undefined : `address ${networkOf(address)}`
}

/** `waitMs`: how long a place is waited for. */
export function createShares(size: number, waitMs: number): Shares {
  const held = new Map<string | undefined, number>()
  /** Those who were served last stand last. */
  const waiting = new Map<string | undefined, Waiter[]>()
  let free = size
  let waiters = 0

  const heldBy = (owner: string | undefined) => held.get(owner) ?? 0
  const mayTake = (owner: string | undefined) => free > 0 && (owner === undefined || heldBy(owner) < free)

  function next(): string | undefined {
    let found: string | undefined
    let fewest = Number.POSITIVE_INFINITY
    for (const owner of waiting.keys()) {
      if (!mayTake(owner) || heldBy(owner) >= fewest) continue
      found = owner
      fewest = heldBy(owner)
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
    held.set(owner, heldBy(owner) + 1)
    let isBack = false
    return () => {
      if (isBack) return
      isBack = true
      free++
      const left = heldBy(owner) - 1
      if (left === 0) held.delete(owner)
      else held.set(owner, left)
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
      const leave = (reason: unknown) => {
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
      const abort = () => leave(signal.reason)
      const timer = setTimeout(() => leave(new AcquisitionTimeout()), waitMs)
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
