/**
 * Keeps the accounts of this browser tab. Tokens are only in the memory of this module: closing or reloading the page
 * removes them. Each account has its own client and cache, so that an account never sees another account's data.
 */
import { MutationCache, QueryCache, QueryClient } from '@tanstack/react-query'
import { createContext, use, useSyncExternalStore } from 'react'
import { texts } from '../texts.ts'
import { type Api, createApi } from './client.ts'
import { ApiError } from './errors.ts'
import { claimsOf } from './token.ts'

export type Account = {
  id: string
  /** The tenant and the user, from the token. */
  label: string
  /** When the token expires, in ms since the epoch. Undefined if the token has no expiry. */
  expiresAt: number | undefined
  token: () => string
  api: Api
  cache: QueryClient
  revoke: LoginSession['revoke']
}

type Accounts = {
  list: readonly Account[]
  current: Account | undefined
  /** Explains why the most recent account was removed, or which part of its logout failed. */
  notice: string | undefined
  /** Whether the page shows the login for a further account. */
  adding: boolean
}

let accounts: Accounts = { list: [], current: undefined, notice: undefined, adding: false }
const listeners = new Set<() => void>()

function change(next: Accounts): void {
  accounts = next
  for (const listener of listeners) listener()
}

const subscribe = (listener: () => void) => {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

export const useAccounts = (): Accounts => useSyncExternalStore(subscribe, () => accounts)

/** The account whose pages are shown. */
export const CurrentAccount = createContext<Account | undefined>(undefined)

export function useAccount(): Account {
  const account = use(CurrentAccount)
  if (account === undefined) throw new Error('useAccount: there is no current account')
  return account
}

export const useApi = (): Api => useAccount().api

/** Returns whether to retry. A failed request is retried at most twice. A refused request is not retried. */
const shouldRetry = (count: number, error: Error): boolean =>
  count < 2 && error instanceof ApiError && (error.status === 0 || error.status >= 500)

const createCache = (): QueryClient =>
  new QueryClient({
    queryCache: new QueryCache(),
    mutationCache: new MutationCache(),
    defaultOptions: { queries: { retry: shouldRetry, staleTime: 5000, refetchOnWindowFocus: true } },
  })

/** The session at an OpenID provider. */
export type LoginSession = {
  /** When the token expires, in ms since the epoch. */
  expiresAt: number | undefined
  /** Undefined if the provider issued no refresh token. */
  renew: (() => Promise<{ token: string; expiresAt: number | undefined }>) | undefined
  /** Undefined if the refresh token cannot be revoked. */
  revoke: (() => Promise<void>) | undefined
}

const renewBeforeMs = 60_000
/** The maximum delay of `setTimeout`: a longer delay overflows. */
const longestTimerMs = 2 ** 31 - 1

/** Adds an account, and makes it the current account. */
export function addAccount(token: string, session?: LoginSession): void {
  const { renew, revoke } = session ?? {}
  let currentToken = token
  const { label, tenant, subject, expiresAt } = claimsOf(token)
  const id = `${tenant} ${subject} ${label}`
  const account: Account = {
    id,
    label,
    expiresAt,
    token: () => currentToken,
    api: createApi({ token: () => currentToken, refused: message => removeAccount(id, texts.login.refused(message)) }),
    cache: createCache(),
    revoke,
  }
  const schedule = (at: number | undefined): void => {
    if (renew === undefined || at === undefined) return
    const left = at - Date.now()
    setTimeout(
      async () => {
        if (!accounts.list.includes(account)) return
        const renewed = await renew().catch(() => undefined)
        if (renewed === undefined) return
        currentToken = renewed.token
        schedule(renewed.expiresAt)
      },
      // A short-lived token is renewed after half of its lifetime.
      Math.min(longestTimerMs, Math.max(1000, left - renewBeforeMs, left / 2)),
    )
  }
  schedule(session?.expiresAt ?? expiresAt)
  const others = accounts.list.filter(other => other.id !== id)
  change({ list: [...others, account], current: account, notice: undefined, adding: false })
}

export const showAccount = (account: Account): void => change({ ...accounts, current: account, adding: false })

export const startAdding = (): void => change({ ...accounts, notice: undefined, adding: true })

export const stopAdding = (): void => change({ ...accounts, adding: false })

function removeAccount(id: string, notice?: string): void {
  const removed = accounts.list.find(account => account.id === id)
  if (removed === undefined) return
  removed.cache.clear()
  const list = accounts.list.filter(account => account !== removed)
  const current = accounts.current === removed ? list.at(0) : accounts.current
  change({ ...accounts, list, current, notice })
}

/** Removes an account, and revokes its refresh token at the provider. */
export async function logOut({ id, revoke }: Account): Promise<void> {
  removeAccount(id, texts.account.loggedOut)
  try {
    await revoke?.()
  } catch (error) {
    const reason = error instanceof Error ? error.message : ''
    change({ ...accounts, notice: texts.account.notRevoked(reason) })
  }
}
