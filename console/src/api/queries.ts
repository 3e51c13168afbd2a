/** What pages read. The keys begin with the kinds that `events.ts` names. */
import { queryOptions } from '@tanstack/react-query'
import { type Range, ranges } from '../lib/metrics.ts'
import type { Description } from '../lib/schema-form.ts'
import type { ServiceType } from '../lib/services.ts'
import { columnsByTable, type SqlResult } from '../lib/sql.ts'
import { tablesIn, tablesStatement } from '../lib/tables.ts'
import type { Account } from './accounts.ts'
import { type Api, answer, read, type Schemas } from './client.ts'
import { runSql } from './run-sql.ts'

/** The next page's address is in a Link header with rel="next". */
const hasNext = (response: Response): boolean => /rel="?next"?/.test(response.headers.get('link') ?? '')

/** At most this many objects of a list are read, for memory. */
const most = 10_000

async function pages<T>(one: (offset: number) => Promise<{ data: T[]; response: Response }>): Promise<T[]> {
  const all: T[] = []
  for (;;) {
    const { data, response } = await one(all.length)
    all.push(...data)
    if (!hasNext(response) || data.length === 0 || all.length >= most) return all
  }
}

export const databasesQuery = (api: Api) =>
  queryOptions({
    queryKey: ['databases'],
    queryFn: ({ signal }) =>
      pages<Schemas['ManagedDatabase']>(offset =>
        answer(api.GET('/managed/v1/databases', { params: { query: { limit: 1000, offset } }, signal })),
      ),
  })

export const databaseQuery = (api: Api, id: string) =>
  queryOptions({
    queryKey: ['database', id],
    queryFn: ({ signal }) => read(api.GET('/managed/v1/databases/{id}', { params: { path: { id } }, signal })),
  })

export const branchesQuery = (api: Api, id: string) =>
  queryOptions({
    queryKey: ['branches', id],
    queryFn: ({ signal }) =>
      pages<Schemas['Branch']>(offset =>
        answer(
          api.GET('/managed/v1/databases/{id}/branches', {
            params: { path: { id }, query: { limit: 100, offset } },
            signal,
          }),
        ),
      ),
  })

const newestTasks = 100

/** The newest operations, of the account, of one object, or of a database with its branches and backups. */
export const tasksQuery = (api: Api, of: { subject_id?: string; database_id?: string } = {}) =>
  queryOptions({
    queryKey: ['tasks', of],
    queryFn: ({ signal }) =>
      read(
        api.GET('/managed/v1/tasks', {
          params: { query: { limit: newestTasks, ...of } },
          signal,
        }),
      ),
  })

const catalogue = { staleTime: 5 * 60_000 }

export const sizesQuery = (api: Api) =>
  queryOptions({
    ...catalogue,
    queryKey: ['sizes'],
    queryFn: ({ signal }) =>
      read(api.GET('/managed/v1/sizes', { params: { query: { include: ['pricing'] } }, signal })),
  })

export const regionsQuery = (api: Api) =>
  queryOptions({
    ...catalogue,
    queryKey: ['regions'],
    queryFn: ({ signal }) => read(api.GET('/managed/v1/regions', { signal })),
  })

export const pgVersionsQuery = (api: Api) =>
  queryOptions({
    ...catalogue,
    queryKey: ['pg-versions'],
    queryFn: ({ signal }) => read(api.GET('/managed/v1/pg-versions', { signal })),
  })

/** The description of the API, of which forms are made. */
export const descriptionQuery = (api: Api) =>
  queryOptions({
    ...catalogue,
    queryKey: ['description'],
    queryFn: async ({ signal }) => (await read(api.GET('/managed/v1/openapi.json', { signal }))) as Description,
  })

export const clientAddressQuery = (api: Api) =>
  queryOptions({
    ...catalogue,
    queryKey: ['client-ip'],
    queryFn: ({ signal }) => read(api.GET('/managed/v1/client-ip', { signal })),
  })

export const backupsQuery = (api: Api, id: string) =>
  queryOptions({
    queryKey: ['backups', id],
    queryFn: ({ signal }) =>
      pages<Schemas['Backup']>(offset =>
        answer(api.GET('/managed/v1/backups', { params: { query: { database_id: id, limit: 100, offset } }, signal })),
      ),
  })

/** What the archive of a database can return to. */
export const windowQuery = (api: Api, id: string) =>
  queryOptions({
    queryKey: ['window', id],
    queryFn: ({ signal }) =>
      read(api.GET('/managed/v1/databases/{id}/recovery-window', { params: { path: { id } }, signal })),
  })

/** A branch with its password, which is removed from memory soon after it was shown. */
export const branchQuery = (api: Api, id: string, branchId: string) =>
  queryOptions({
    queryKey: ['branches', id, branchId],
    gcTime: 1000,
    queryFn: ({ signal }) =>
      read(
        api.GET('/managed/v1/databases/{id}/branches/{branch_id}', {
          params: { path: { id, branch_id: branchId } },
          signal,
        }),
      ),
  })

export const roles = ['application', 'application_read_only', 'admin'] as const satisfies Schemas['UserType'][]
export type Role = (typeof roles)[number]

/** A database with the password of a role. It is removed from memory soon after the page is left. */
export const connectionQuery = (api: Api, id: string, role: Role) =>
  queryOptions({
    queryKey: ['database', id, 'connection', role],
    gcTime: 1000,
    queryFn: ({ signal }) =>
      read(api.GET('/managed/v1/databases/{id}', { params: { path: { id }, query: { user_type: role } }, signal })),
  })

const metricsEveryMs = 30_000

/** Measurements of the time that ends now. */
export const metricsQuery = (api: Api, id: string, source: 'postgres' | ServiceType, range: Range) =>
  queryOptions({
    queryKey: ['metrics', id, source, range],
    refetchInterval: metricsEveryMs,
    queryFn: async ({ signal }) => {
      const to = Date.now()
      const { ms, interval } = ranges[range]
      const from = to - ms
      const query = {
        ...{ interval, start_time: new Date(from).toISOString(), end_time: new Date(to).toISOString() },
        ...(source === 'postgres' ? {} : { service: source }),
      }
      const params = { path: { id }, query }
      const { series } = await read(api.GET('/managed/v1/databases/{id}/metrics', { params, signal }))
      return { series, from, to }
    },
  })

export const orders = ['total_time', 'mean_time', 'calls', 'rows'] as const
export type StatementOrder = (typeof orders)[number]
const mostStatements = 50

/** The statistics of statements. Each read uses a connection of the database for a moment. */
export const queriesQuery = (api: Api, id: string, order: StatementOrder) =>
  queryOptions({
    ...{ queryKey: ['queries', id, order], staleTime: 60_000, retry: false },
    queryFn: ({ signal }) =>
      read(
        api.GET('/managed/v1/databases/{id}/queries', {
          params: { path: { id }, query: { order, limit: mostStatements } },
          signal,
        }),
      ),
  })

const mostColumns = 20_000
const columnsOfTables = `SELECT CASE WHEN n.nspname = 'public' THEN c.relname ELSE n.nspname || '.' || c.relname END, a.attname
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname !~ '^(pg_|information_schema$)'
ORDER BY 1, a.attnum`

/** Tables with their columns, for completion. */
export const schemaQuery = (account: Account, id: string) =>
  queryOptions({
    queryKey: ['schema', id],
    staleTime: 60_000,
    retry: false,
    // Sharing would copy it into an object with a prototype.
    structuralSharing: false,
    queryFn: async ({ signal }) => {
      const request = { text: columnsOfTables, mode: 'read', max_rows: mostColumns, timeout_seconds: 10 } as const
      let rows: readonly (readonly (string | null)[])[] = []
      await runSql(account, { id, branchId: undefined }, request, signal, results => {
        rows = results[0]?.rows ?? []
      })
      return columnsByTable(rows)
    },
  })

/** Tables with their columns and estimates, for the table browser. */
export const tablesQuery = (account: Account, id: string) =>
  queryOptions({
    ...{ queryKey: ['tables', id], staleTime: 60_000, retry: false },
    queryFn: async ({ signal }) => {
      const request = { text: tablesStatement, mode: 'read', max_rows: mostColumns, timeout_seconds: 10 } as const
      let results: readonly SqlResult[] = []
      await runSql(account, { id, branchId: undefined }, request, signal, growing => {
        results = growing
      })
      const fault = results[0]?.fault
      if (fault !== undefined) throw new Error(fault.message)
      return tablesIn(results[0]?.rows ?? [])
    },
  })
