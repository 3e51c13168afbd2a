/** The staged changes of rows. They are in memory, for each account, and for each database and branch. */
import { useEffect, useSyncExternalStore } from 'react'
import type { Account } from '../api/accounts.ts'
import { type Edit, withEdit } from './edits.ts'
import { keyOf, type Target } from './target.ts'

/** More would be too many to check before a commit. */
const mostEdits = 200

type Store = { edits: readonly Edit[]; listeners: Set<() => void> }
const stores = new WeakMap<Account, Map<string, Store>>()

function storeOf(account: Account, key: string): Store {
  const ofAccount = stores.get(account) ?? new Map<string, Store>()
  stores.set(account, ofAccount)
  const store = ofAccount.get(key) ?? { edits: [], listeners: new Set() }
  ofAccount.set(key, store)
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

/** The browser asks before it leaves the console: staged changes are lost then. Pages of the console keep them. */
export function useAskBeforeLeaving(account: Account): void {
  useEffect(() => {
    const ask = (event: BeforeUnloadEvent) => {
      const all = [...(stores.get(account)?.values() ?? [])]
      if (all.some(({ edits }) => edits.length > 0)) event.preventDefault()
    }
    addEventListener('beforeunload', ask)
    return () => removeEventListener('beforeunload', ask)
  }, [account])
}
