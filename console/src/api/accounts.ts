/**
 * The accounts of this tab. Tokens are only in this module's memory: closing or reloading the page removes them. Each
 * account has its own client and cache, so no data of one is shown to another.
 */
import { MutationCache, QueryCache, QueryClient } from '@tanstack/react-query'
import { createContext, use, useSyncExternalStore } from 'react'
import { texts } from '../texts.ts'
import { type Api, createApi } from './client.ts'
import { ApiError } from './errors.ts'
import { claimsOf } from './token.ts'

export type Account = {
  id: string
  /** The tenant and the user, as the token says. */
  label: string
  /** When the token expires, in ms; undefined if it does not say so. */
  expiresAt: number | undefined
  token: () => string
  api: Api
  cache: QueryClient
  revoke: LoginSession['revoke']
}

type Accounts = {
  list: readonly Account[]
  current: Account | undefined
  /** Why the last account was removed. */
  notice: string | undefined
  /** The login is shown for one more account. */
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
  if (account === undefined) throw new Error('no account')
  return account
}

export const useApi = (): Api => useAccount().api

/** Refused requests are not repeated; failed ones are, twice. */
const repeats = (count: number, error: Error): boolean =>
  count < 2 && error instanceof ApiError && (error.status === 0 || error.status >= 500)

const createCache = (): QueryClient =>
  new QueryClient({
    queryCache: new QueryCache(),
    mutationCache: new MutationCache(),
    defaultOptions: { queries: { retry: repeats, staleTime: 5000, refetchOnWindowFocus: true } },
  })

/** The login at a provider. Undefined: the token is not renewed, or the provider revokes nothing. */
export type LoginSession = {
  /** When the token expires, in ms. */
  expiresAt: number | undefined
  renew: (() => Promise<{ token: string; expiresAt: number | undefined }>) | undefined
  revoke: (() => Promise<void>) | undefined
}

const renewBeforeMs = 60_000
/** Longer timers overflow. */
const longestTimerMs = 2 ** 31 - 1

/** Adds an account, and shows it. */
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
      // A short token is renewed when half of its time has passed.
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

/** Removes an account, and revokes at its provider what renews its token. */
export async function logOut({ id, revoke }: Account): Promise<void> {
  removeAccount(id, texts.account.loggedOut)
  try {
    await revoke?.()
  } catch (error) {
    const reason = error instanceof Error ? error.message : ''
    change({ ...accounts, notice: texts.account.notRevoked(reason) })
  }
}
