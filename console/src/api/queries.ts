/** The queries of the pages. `staleKeys` in `events.ts` uses the beginnings of their keys. */
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { type Range, ranges } from '../lib/metrics.ts'
import type { Description } from '../lib/schema-form.ts'
import type { ServiceType } from '../lib/services.ts'
import { columnsByTable, type SqlResult } from '../lib/sql.ts'
import { tablesIn, tablesStatement } from '../lib/tables.ts'
import { keyOf, type Target } from '../lib/target.ts'
import type { Account } from './accounts.ts'
import { type Api, answer, read, type Schemas } from './client.ts'
import { runSql } from './run-sql.ts'

/** Returns whether there is a next page. Its URL is in a Link header with rel="next". */
const hasNext = (response: Response): boolean => /rel="?next"?/.test(response.headers.get('link') ?? '')

/** The approximate maximum number of objects that are read from a list, to limit memory. */
const most = 10_000

/** Reads the pages of a list. */
async function pages<T>(readPage: (offset: number) => Promise<{ data: T[]; response: Response }>): Promise<T[]> {
  const all: T[] = []
  for (;;) {
    const { data, response } = await readPage(all.length)
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

/** Reads the newest operations: of the account, of one object, or of a database with its branches and backups. */
export const tasksQuery = (api: Api, filter: { subject_id?: string; database_id?: string } = {}) =>
  queryOptions({
    queryKey: ['tasks', filter],
    queryFn: ({ signal }) =>
      read(
        api.GET('/managed/v1/tasks', {
          params: { query: { limit: newestTasks, ...filter } },
          signal,
        }),
      ),
  })

export const outcomes = ['accepted', 'refused', 'failed'] as const satisfies Schemas['AuditEntry']['outcome'][]
export type Outcome = (typeof outcomes)[number]

/** Reads the audit entries of writes, newest first. Each page begins after the last entry of the previous page. */
export const auditQuery = (api: Api, filter: { database_id?: string | undefined; outcome?: Outcome | undefined }) =>
  infiniteQueryOptions({
    queryKey: ['audit', filter],
    initialPageParam: undefined as string | undefined,
    queryFn: async ({ pageParam, signal }) => {
      const params = { query: { ...filter, cursor: pageParam } }
      const { data, response } = await answer(api.GET('/managed/v1/audit', { params, signal }))
      return { entries: data, next: hasNext(response) ? data.at(-1)?.id : undefined }
    },
    getNextPageParam: ({ next }) => next,
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

/** Reads the OpenAPI description, from which the console builds forms. */
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

/** Reads the recovery window of a database. */
export const windowQuery = (api: Api, id: string) =>
  queryOptions({
    queryKey: ['window', id],
    queryFn: ({ signal }) =>
      read(api.GET('/managed/v1/databases/{id}/recovery-window', { params: { path: { id } }, signal })),
  })

/** Reads a branch with the password of `app`. The cache removes it soon after the user leaves the page. */
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

type Connectable = Pick<Schemas['ManagedDatabase'], 'connection' | 'domain'>

/** Reads the connection with the password of a role. The cache removes it soon after the user leaves the page. */
export const connectionQuery = (api: Api, { id, branchId }: Target, role: Role) =>
  queryOptions({
    queryKey: [...(branchId === undefined ? ['database', id] : ['branches', id, branchId]), 'connection', role],
    gcTime: 1000,
    queryFn: ({ signal }): Promise<Connectable> => {
      const query = { user_type: role }
      if (branchId === undefined)
        return read(api.GET('/managed/v1/databases/{id}', { params: { path: { id }, query }, signal }))
      const params = { path: { id, branch_id: branchId }, query }
      return read(api.GET('/managed/v1/databases/{id}/branches/{branch_id}', { params, signal }))
    },
  })

const metricsEveryMs = 30_000

/** Reads the metrics of a time range that ends now. */
export const metricsQuery = (api: Api, target: Target, source: 'postgres' | ServiceType, range: Range) =>
  queryOptions({
    queryKey: ['metrics', keyOf(target), source, range],
    refetchInterval: metricsEveryMs,
    queryFn: async ({ signal }) => {
      const to = Date.now()
      const { ms, interval } = ranges[range]
      const from = to - ms
      const query = {
        ...{ interval, start_time: new Date(from).toISOString(), end_time: new Date(to).toISOString() },
        ...(source === 'postgres' ? {} : { service: source }),
      }
      const { id, branchId } = target
      const { series } = await read(
        branchId === undefined
          ? api.GET('/managed/v1/databases/{id}/metrics', { params: { path: { id }, query }, signal })
          : api.GET('/managed/v1/databases/{id}/branches/{branch_id}/metrics', {
              params: { path: { id, branch_id: branchId }, query },
              signal,
            }),
      )
      return { series, from, to }
    },
  })

export const orders = ['total_time', 'mean_time', 'calls', 'rows'] as const
export type StatementOrder = (typeof orders)[number]
const mostStatements = 50

/** Reads the statistics of statements. Each read briefly uses a connection of the database. */
export const queriesQuery = (api: Api, target: Target, order: StatementOrder) =>
  queryOptions({
    ...{ queryKey: ['queries', keyOf(target), order], staleTime: 60_000, retry: false },
    queryFn: ({ signal }) => {
      const { id, branchId } = target
      const query = { order, limit: mostStatements }
      return read(
        branchId === undefined
          ? api.GET('/managed/v1/databases/{id}/queries', { params: { path: { id }, query }, signal })
          : api.GET('/managed/v1/databases/{id}/branches/{branch_id}/queries', {
              params: { path: { id, branch_id: branchId }, query },
              signal,
            }),
      )
    },
  })

const mostColumns = 20_000
const columnsOfTables = `SELECT CASE WHEN n.nspname = 'public' THEN c.relname ELSE n.nspname || '.' || c.relname END, a.attname
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname !~ '^(pg_|information_schema$)'
ORDER BY 1, a.attnum`

/** Reads tables and columns, for completion in the SQL editor. */
export const schemaQuery = (account: Account, target: Target) =>
  queryOptions({
    queryKey: ['schema', keyOf(target)],
    staleTime: 60_000,
    retry: false,
    // Structural sharing would copy the result into an object with a prototype.
    structuralSharing: false,
    queryFn: async ({ signal }) => {
      const request = { text: columnsOfTables, mode: 'read', max_rows: mostColumns, timeout_seconds: 10 } as const
      let rows: readonly (readonly (string | null)[])[] = []
      await runSql(account, target, request, signal, results => {
        rows = results[0]?.rows ?? []
      })
      return columnsByTable(rows)
    },
  })

/** Reads tables, columns and estimates of rows, for the table browser. */
export const tablesQuery = (account: Account, target: Target) =>
  queryOptions({
    ...{ queryKey: ['tables', keyOf(target)], staleTime: 60_000, retry: false },
    queryFn: async ({ signal }) => {
      const request = { text: tablesStatement, mode: 'read', max_rows: mostColumns, timeout_seconds: 10 } as const
      let results: readonly SqlResult[] = []
      await runSql(account, target, request, signal, growing => {
        results = growing
      })
      const fault = results[0]?.fault
      if (fault !== undefined) throw new Error(fault.message)
      return tablesIn(results[0]?.rows ?? [])
    },
  })
