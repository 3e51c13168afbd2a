/**
 * Follows the event stream of an account, and refetches changed objects. Events identify objects, but do not contain
 * their data. After an interruption, the page reconnects with growing pauses, and then refetches all data once.
 */
import type { QueryClient } from '@tanstack/react-query'
import { useEffect, useSyncExternalStore } from 'react'
import type { Account } from './accounts.ts'
import { createParser } from './sse.ts'

type Change = { kind: string; id: string; databaseId: string | undefined; status: string | undefined }

/** `polling`: the API provides no event stream, so the page refetches its data at intervals. */
type Following = 'connecting' | 'live' | 'polling'

const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)

export function changeOf(data: string): Change | undefined {
  let value: unknown
  try {
    value = JSON.parse(data)
  } catch {
    return undefined
  }
  if (typeof value !== 'object' || value === null) return undefined
  const { kind, id, database_id, status } = value as Record<string, unknown>
  if (typeof kind !== 'string' || typeof id !== 'string') return undefined
  return { kind, id, databaseId: textOf(database_id), status: textOf(status) }
}

/** Returns the key prefixes of the queries that a change makes stale. */
export function staleKeys({ kind, id, databaseId }: Change): string[][] {
  const database = databaseId === undefined ? [] : [['database', databaseId]]
  switch (kind) {
    case 'database':
      return [['databases'], ['database', id]]
    case 'branch':
      return [['branches', ...(databaseId === undefined ? [] : [databaseId])], ...database, ['databases']]
    case 'backup':
      return [['backups'], ['window', ...(databaseId === undefined ? [] : [databaseId])]]
    case 'restore':
      return [...database, ['previous', ...(databaseId === undefined ? [] : [databaseId])]]
    case 'task':
      return [['tasks']]
    default:
      return []
  }
}

let following: Following = 'connecting'
const listeners = new Set<() => void>()
function setFollowing(next: Following): void {
  if (next === following) return
  following = next
  for (const listener of listeners) listener()
}

export const useFollowing = (): Following =>
  useSyncExternalStore(
    listener => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => following,
  )

const firstPauseMs = 1000
const longestPauseMs = 30_000
const pollEveryMs = 5000
/** The time during which changes are collected and then applied together. */
const togetherMs = 150

export function useEvents(account: Account): void {
  useEffect(() => {
    const stop = new AbortController()
    follow(account, stop.signal)
    return () => stop.abort()
  }, [account])
}

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise(resolve => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      resolve()
    })
  })

async function follow(account: Account, signal: AbortSignal): Promise<void> {
  let failures = 0
  let wasLive = false
  while (!signal.aborted) {
    const began = Date.now()
    const outcome = await stream(account, signal, {
      onOpen: () => setFollowing('live'),
      // No refetch for the first stream: the pages have just read their data.
      onRefresh: () => {
        if (wasLive) account.cache.invalidateQueries()
        wasLive = true
      },
    })
    if (signal.aborted || outcome === 'refused') return
    setFollowing(outcome === 'absent' ? 'polling' : 'connecting')
    if (outcome === 'absent') {
      await pause(pollEveryMs, signal)
      if (!signal.aborted && document.visibilityState === 'visible') account.cache.invalidateQueries({ type: 'active' })
      continue
    }
    failures = Date.now() - began > longestPauseMs ? 0 : failures + 1
    const longest = Math.min(longestPauseMs, firstPauseMs * 2 ** failures)
    await pause(longest * (0.5 + Math.random() / 2), signal)
  }
}

/** `onRefresh` is called for a `refresh` event: all data may be stale. Each stream begins with this event. */
type Listener = { onOpen: () => void; onRefresh: () => void }

/**
 * Follows the event stream until the connection ends. Returns `absent` if the API provides no stream, and `refused` if
 * the API does not accept the token.
 */
async function stream(
  account: Account,
  signal: AbortSignal,
  { onOpen, onRefresh }: Listener,
): Promise<'ended' | 'absent' | 'refused'> {
  try {
    const response = await fetch('/managed/v1/events', {
      headers: { authorization: `Bearer ${account.token()}`, accept: 'text/event-stream' },
      credentials: 'omit',
      cache: 'no-store',
      signal,
    })
    if (response.status === 404 || response.status === 403 || response.status === 405) return 'absent'
    if (response.status === 401) {
      // The refetch also fails with 401. The API client then removes the account and reports the reason.
      account.cache.invalidateQueries({ type: 'active' })
      return 'refused'
    }
    if (!response.ok || response.body === null) return 'ended'
    onOpen()
    const parse = createParser()
    const apply = createApplier(account.cache)
    const decoder = new TextDecoderStream()
    for (
      const reader = response.body.pipeThrough(decoder as ReadableWritablePair<string, Uint8Array>).getReader();
      ;
    ) {
      const { done, value } = await reader.read()
      if (done) return 'ended'
      for (const { event, data } of parse(value)) {
        if (event === 'refresh') onRefresh()
        const change = event === 'change' ? changeOf(data) : undefined
        if (change !== undefined) apply(change)
      }
    }
  } catch {
    return 'ended'
  }
}

/** Returns a function that collects changes for `togetherMs`, and then refetches each stale query once. */
function createApplier(cache: QueryClient): (change: Change) => void {
  const keys = new Map<string, string[]>()
  return change => {
    const isFirst = keys.size === 0
    for (const key of staleKeys(change)) keys.set(key.join(' '), key)
    if (!isFirst || keys.size === 0) return
    setTimeout(() => {
      for (const queryKey of keys.values()) cache.invalidateQueries({ queryKey })
      keys.clear()
    }, togetherMs)
  }
}
