/** Keeps the tabs and history of the SQL editor in memory, separately for each account, database and branch. */
import { useSyncExternalStore } from 'react'
import type { Account } from '../api/accounts.ts'
import { keyOf, type Target } from './target.ts'

type SqlTab = { id: number; text: string }
type Editor = { tabs: readonly SqlTab[]; current: number; history: readonly string[] }

const mostTabs = 12
const mostHistory = 100

type Store = { state: Editor; listeners: Set<() => void> }
const stores = new WeakMap<Account, Map<string, Store>>()

function storeOf(account: Account, key: string): Store {
  const accountStores = stores.get(account) ?? new Map<string, Store>()
  stores.set(account, accountStores)
  const store = accountStores.get(key) ?? {
    state: { tabs: [{ id: 1, text: '' }], current: 1, history: [] },
    listeners: new Set(),
  }
  accountStores.set(key, store)
  return store
}

export type SqlTabs = Editor & {
  add: (text?: string) => void
  close: (id: number) => void
  show: (id: number) => void
  write: (id: number, text: string) => void
  remember: (text: string) => void
}

export function useSqlTabs(account: Account, target: Target): SqlTabs {
  const store = storeOf(account, keyOf(target))
  const state = useSyncExternalStore(
    listener => {
      store.listeners.add(listener)
      return () => store.listeners.delete(listener)
    },
    () => store.state,
  )
  const change = (next: Partial<Editor>) => {
    store.state = { ...store.state, ...next }
    for (const listener of store.listeners) listener()
  }
  return {
    ...state,
    add: (text = '') => {
      const { tabs } = store.state
      if (tabs.length >= mostTabs) return
      const id = Math.max(...tabs.map(tab => tab.id)) + 1
      change({ tabs: [...tabs, { id, text }], current: id })
    },
    close: id => {
      const tabs = store.state.tabs.filter(tab => tab.id !== id)
      const remaining = tabs.length === 0 ? [{ id: id + 1, text: '' }] : tabs
      const current = remaining.some(tab => tab.id === store.state.current)
        ? store.state.current
        : (remaining.at(-1)?.id ?? 1)
      change({ tabs: remaining, current })
    },
    show: current => change({ current }),
    write: (id, text) => change({ tabs: store.state.tabs.map(tab => (tab.id === id ? { id, text } : tab)) }),
    remember: text => {
      const rest = store.state.history.filter(entry => entry !== text)
      change({ history: [text, ...rest].slice(0, mostHistory) })
    },
  }
}
