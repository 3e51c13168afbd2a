import { useQuery } from '@tanstack/react-query'
import { useApi } from '../api/accounts.ts'
import type { Schemas } from '../api/client.ts'
import { branchQuery, databaseQuery } from '../api/queries.ts'
import type { Target } from './target.ts'

/** Returns the database or branch that a page shows. Returns undefined until it is loaded. */
export function useOwner({ id, branchId }: Target): Schemas['ManagedDatabase'] | Schemas['Branch'] | undefined {
  const api = useApi()
  const database = useQuery({ ...databaseQuery(api, id), enabled: branchId === undefined })
  const branch = useQuery({ ...branchQuery(api, id, branchId ?? ''), enabled: branchId !== undefined })
  return branchId === undefined ? database.data : branch.data
}
