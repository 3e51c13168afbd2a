/** Finds the branch that the path of a request names. */
import type { Kinds } from '../../cluster/index.ts'
import { findOwned } from '../caches.ts'
import type { ApiContext } from '../context.ts'
import { notFound } from '../errors.ts'

/** `id`: the id of the database. @throws ApiError 404 if the database has no such branch */
export async function findBranch(
  { cluster, caches }: Pick<ApiContext, 'cluster' | 'caches'>,
  namespace: string,
  { id, branch_id: branchId }: { id: string; branch_id: string },
): Promise<Kinds['Branch']> {
  const found = await findOwned(cluster, caches.Branch, 'Branch', namespace, branchId)
  if (found === undefined || found.spec.databaseId !== id) throw notFound('branch')
  return found
}
