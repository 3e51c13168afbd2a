/** The staged changes of rows. They are in memory, for each account and database, until they are committed. */
import { useSyncExternalStore } from 'react'
import type { Account } from '../api/accounts.ts'
import { type Edit, withEdit } from './edits.ts'

/** More would be too many to check before a commit. */
const mostEdits = 200

type Store = { edits: readonly Edit[]; listeners: Set<() => void> }
const stores = new WeakMap<Account, Map<string, Store>>()

function storeOf(account: Account, id: string): Store {
  const ofAccount = stores.get(account) ?? new Map<string, Store>()
  stores.set(account, ofAccount)
  const store = ofAccount.get(id) ?? { edits: [], listeners: new Set() }
  ofAccount.set(id, store)
  return store
}

export type Staged = {
  edits: readonly Edit[]
  isFull: boolean
  stage: (edit: Edit) => void
  remove: (id: string) => void
  clear: () => void
}

export function useStaged(account: Account, database: string): Staged {
  const store = storeOf(account, database)
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
