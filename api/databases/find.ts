/** Finds the database that a request's path names. */
import type { Kinds } from '../../cluster/index.ts'
import { findOwned, readOwned } from '../caches.ts'
import type { ApiContext } from '../context.ts'
import { notFound } from '../errors.ts'

type Database = Kinds['ManagedDatabase']

/** For a read: uses the cache, unless the cache may be outdated. @throws ApiError 404 */
export async function findDatabase(
  { cluster, caches }: Pick<ApiContext, 'cluster' | 'caches'>,
  namespace: string,
  id: string,
): Promise<Database> {
  const found = await findOwned(cluster, caches.ManagedDatabase, 'ManagedDatabase', namespace, id)
  if (found === undefined) throw notFound('database')
  return found
}

/** For a write: reads the current state from the cluster. @throws ApiError 404 */
export async function readDatabase(
  { cluster }: Pick<ApiContext, 'cluster'>,
  namespace: string,
  id: string,
): Promise<Database> {
  const found = await readOwned(cluster, 'ManagedDatabase', namespace, id)
  if (found === undefined) throw notFound('database')
  return found
}
