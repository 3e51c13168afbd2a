/** Finds the database of a task. */
import type { Kinds } from '../../cluster/index.ts'
import { type Caches, cachedOwned } from '../caches.ts'

/** Returns the database of a task's subject. @returns undefined if the subject is a deleted branch or backup */
export function databaseOf(
  { Branch, Backup }: Caches,
  { metadata, spec: { subject } }: Kinds['Task'],
): string | undefined {
  if (subject.kind === 'database') return subject.id
  const namespace = metadata.namespace ?? ''
  const found =
    subject.kind === 'branch' ? cachedOwned(Branch, namespace, subject.id) : cachedOwned(Backup, namespace, subject.id)
  return found?.spec.databaseId
}
