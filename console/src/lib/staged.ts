/** Keeps staged row changes in memory, separately for each account, database and branch. */
import { useEffect, useSyncExternalStore } from 'react'
import type { Account } from '../api/accounts.ts'
import { type Edit, withEdit } from './edits.ts'
import { keyOf, type Target } from './target.ts'

/** The maximum number of staged changes. More changes are too many to review before a commit. */
const mostEdits = 200

type Store = { edits: readonly Edit[]; listeners: Set<() => void> }
const stores = new WeakMap<Account, Map<string, Store>>()

function storeOf(account: Account, key: string): Store {
  const accountStores = stores.get(account) ?? new Map<string, Store>()
  stores.set(account, accountStores)
  const store = accountStores.get(key) ?? { edits: [], listeners: new Set() }
  accountStores.set(key, store)
  return store
}

export type Staged = {
  edits: readonly Edit[]
  isFull: boolean
  stage: (edit: Edit) => void
  remove: (id: string) => void
  clear: () => void
}

export function useStaged(account: Account, target: Target): Staged {
  const store = storeOf(account, keyOf(target))
  const edits = useSyncExternalStore(
    listener => {
      store.listeners.add(listener)
      return () => store.listeners.delete(listener)
    },
    () => store.edits,
  )
  const change = (next: readonly Edit[]) => {
    store.edits = next
    for (const listener of store.listeners) listener()
  }
  return {
    edits,
    isFull: edits.length >= mostEdits,
    stage: edit => change(withEdit(store.edits, edit)),
    remove: id => change(store.edits.filter(edit => edit.id !== id)),
    clear: () => change([]),
  }
}

/**
 * Makes the browser ask the user before the console closes with staged changes, because closing removes them.
 * Navigation between pages of the console keeps them.
 */
export function useAskBeforeLeaving(account: Account): void {
  useEffect(() => {
    const confirmLeave = (event: BeforeUnloadEvent) => {
      const all = [...(stores.get(account)?.values() ?? [])]
      if (all.some(({ edits }) => edits.length > 0)) event.preventDefault()
    }
    addEventListener('beforeunload', confirmLeave)
    return () => removeEventListener('beforeunload', confirmLeave)
  }, [account])
}
