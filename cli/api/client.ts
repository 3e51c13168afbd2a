/** Calls the API's operations, and checks the shape of each response. */
import { ApiFailure } from '../errors.ts'
import { list, nothing, object, type Shape } from '../shape.ts'
import { type Api, type Call, claimsOf, notTheApi, readJson, refusal, request, requestOf } from './call.ts'
import { type Change, followChanges } from './events.ts'
import type { Answer } from './request.ts'
import {
  type AuditEntry,
  auditEntry,
  type Backup,
  type Branch,
  backup,
  branch,
  clientAddress,
  type Database,
  database,
  logEntry,
  loginOptions,
  named,
  series,
  size,
  task,
} from './shapes.ts'

/** The values of the query parameter `user_type`. They select the role of the connection in the response. */
export type UserType = 'application' | 'admin' | 'application_read_only'

/** The longest `Prefer: wait` that the API accepts, in seconds. */
export const longestWait = 60
const pageLength = 1000
const shortPageLength = 100
const auditPageLength = 200
/** The maximum number of attempts if other clients change the same object. */
const mostTries = 5

/** Reads all pages of a list. */
async function readAll<T>(length: number, read: (offset: number) => Promise<T[]>): Promise<T[]> {
  const all: T[] = []
  for (;;) {
    const page = await read(all.length)
    all.push(...page)
    if (page.length < length) return all
  }
}

/**
 * Reads pages of audit entries, newest first, until it has `limit` entries or no more exist. The last id of a page is
 * the cursor of the next page.
 */
async function readBefore(
  limit: number,
  read: (length: number, cursor: string | undefined) => Promise<AuditEntry[]>,
): Promise<AuditEntry[]> {
  const all: AuditEntry[] = []
  for (;;) {
    const length = Math.min(auditPageLength, limit - all.length)
    const page = await read(length, all.at(-1)?.id)
    all.push(...page)
    if (page.length < length || all.length >= limit) return all
  }
}

type Query = Readonly<Record<string, string | number | boolean | undefined>>

/** Builds the query string from the parameters that have a value. */
function query(parameters: Query): string {
  const present = Object.entries(parameters).filter(([, value]) => value !== undefined)
  return present.length === 0
    ? ''
    : `?${new URLSearchParams(Object.fromEntries(present.map(([name, value]) => [name, String(value)])))}`
}

/** Returns the claims that identify the token's user. */
function userOf(token: string): string {
  const { iss, sub, tenant } = claimsOf(token)
  return JSON.stringify([iss, sub, tenant])
}

/**
 * A token can expire while a command waits. If the API returns 401, renews the token and repeats the request. The
 * repeat is safe, because a request with a refused token changes nothing.
 */
function createSender(api: Api) {
  let present = api
  return {
    present: () => present,
    send: async (path: string, options: Call): Promise<Answer> => {
      const answer = await request(present, path, options)
      if (answer.status !== 401 || present.renew === undefined) return answer
      const renewed = await present.renew()
      // The profile can now have another API or user. The ids of this request are not valid there.
      const isSame = renewed.url.href === present.url.href && userOf(renewed.token) === userOf(present.token)
      if (renewed.token === present.token || !isSame) return answer
      present = renewed
      return request(present, path, options)
    },
  }
}

function createCaller({ present, send }: ReturnType<typeof createSender>) {
  async function callWithTag<T>(shape: Shape<T>, path: string, options: Call = {}) {
    const answer = await send(path, options)
    const isRefused = answer.status < 200 || answer.status > 299
    if (isRefused) throw refusal(present(), requestOf(path, options), answer)
    const body = readJson(answer.text)
    if (!shape(body)) throw notTheApi(present().url, requestOf(path, options), answer)
    return { body, etag: answer.etag }
  }
  return {
    callWithTag,
    call: async <T>(shape: Shape<T>, path: string, options: Call = {}): Promise<T> =>
      (await callWithTag(shape, path, options)).body,
  }
}

/** A database, or a branch of it. */
export type Place = { id: string; branchId?: string | undefined }
const pathOf = ({ id, branchId }: Place): string =>
  branchId === undefined ? `/databases/${id}` : `/databases/${id}/branches/${branchId}`

/**
 * A client of one account. For a change, `wait` is the maximum seconds that the API waits until the change is applied
 * (default 60).
 */
export function createClient(api: Api) {
  const sender = createSender(api)
  const { present, send } = sender
  const { call, callWithTag } = createCaller(sender)
  const post = <T>(shape: Shape<T>, path: string, body?: unknown, wait: number = longestWait) =>
    call(shape, path, { method: 'POST', body, wait })
  return {
    clientIp: async () => (await call(clientAddress, '/client-ip')).ip_address,
    create: (input: object, wait?: number) => post(database, '/databases', input, wait),
    /** `wait`: the maximum seconds that the API waits for running operations. */
    read: (id: string, userType: UserType = 'application', wait = 0) =>
      call(database, `/databases/${id}?user_type=${userType}`, { wait }),
    change: (id: string, input: object, wait: number = longestWait) =>
      call(database, `/databases/${id}`, { method: 'PATCH', body: input, wait }),
    /**
     * Reads the database, calls `decide`, and sends the change. Repeats this if another client changed the database
     * meanwhile.
     */
    async changeFrom(id: string, decide: (present: Database) => object | undefined, wait: number): Promise<Database> {
      for (let tries = 1; ; tries++) {
        const { body: present, etag } = await callWithTag(database, `/databases/${id}`)
        const input = decide(present)
        if (input === undefined) return present
        try {
          return await call(database, `/databases/${id}`, { method: 'PATCH', body: input, wait, ifMatch: etag })
        } catch (error) {
          if (!(error instanceof ApiFailure && error.status === 412) || tries === mostTries) throw error
        }
      }
    },
    act: (id: string, action: 'suspend' | 'resume' | 'restart', wait?: number) =>
      post(database, `/databases/${id}/${action}`, undefined, wait),
    resize: (id: string, name: string, wait?: number) => post(nothing, `/databases/${id}/size`, { size: name }, wait),
    rotate: (id: string, role: string, wait?: number) =>
      post(nothing, `/databases/${id}/roles/${role}/rotate-password`, undefined, wait),
    /** Creates a backup of the database. By default, waits at most 60 s until it is completed. */
    backUp: (id: string, kind = 'hot', wait?: number): Promise<Backup> =>
      post(backup, `/databases/${id}/backup`, { kind }, wait),
    readBackup: (id: string) => call(backup, `/backups/${id}`),
    backups: (databaseId?: string): Promise<Backup[]> =>
      readAll(shortPageLength, offset =>
        call(list(backup), `/backups${query({ database_id: databaseId, limit: shortPageLength, offset })}`),
      ),
    removeBackup: async (id: string) => {
      await call(nothing, `/backups/${id}`, { method: 'DELETE' })
    },
    restore: (id: string, target: object, wait?: number) => post(database, `/databases/${id}/restore`, target, wait),
    remove: async (id: string, options: Query = {}, wait: number = longestWait) => {
      await call(nothing, `/databases/${id}${query(options)}`, { method: 'DELETE', wait })
    },
    /** Creates a branch, waits at most 60 s until it is available, and returns it with its connection. */
    async branch(id: string) {
      const created = await post(branch, `/databases/${id}/branches`)
      return call(branch, `/databases/${id}/branches/${created.id}`)
    },
    createBranch: (id: string, input: object, wait?: number) => post(branch, `/databases/${id}/branches`, input, wait),
    /** `wait`: the maximum seconds that the API waits for running operations. */
    readBranch: (id: string, branchId: string, userType: UserType = 'application', wait = 0) =>
      call(branch, `/databases/${id}/branches/${branchId}?user_type=${userType}`, { wait }),
    /** Returns all branches of the database that are not deleted, at any depth, oldest first. */
    branches: (id: string): Promise<Branch[]> =>
      readAll(shortPageLength, offset =>
        call(list(branch), `/databases/${id}/branches?limit=${shortPageLength}&offset=${offset}`),
      ),
    removeBranch: async (id: string, branchId: string, wait: number = longestWait) => {
      await call(nothing, `/databases/${id}/branches/${branchId}`, { method: 'DELETE', wait })
    },
    /** Returns all databases of the account, oldest first. */
    list: (): Promise<Database[]> =>
      readAll(pageLength, offset => call(list(database), `/databases?limit=${pageLength}&offset=${offset}`)),
    /** Returns at most `limit` tasks, newest first. */
    tasks: (of: { subject_id?: string; database_id?: string }, limit: number) =>
      call(list(task), `/tasks${query({ ...of, limit })}`),
    /** Returns at most `limit` audit entries, newest first. */
    audit: (of: { database_id?: string | undefined; since?: string | undefined }, limit: number) =>
      readBefore(limit, (length, cursor) => call(list(auditEntry), `/audit${query({ ...of, limit: length, cursor })}`)),
    sizes: () => call(list(size), '/sizes?include=pricing'),
    regions: () => call(list(named), '/regions'),
    logs: async (place: Place, options: Query) =>
      (await call(object({ logs: list(logEntry) }), `${pathOf(place)}/logs${query(options)}`)).logs,
    metrics: (place: Place, options: Query) =>
      call(object({ series: list(series) }), `${pathOf(place)}/metrics${query(options)}`),
    /** Follows the changes of the account's objects, until the caller calls `close`. */
    follow: (isMeant: (change: Change) => boolean) => followChanges(present, isMeant),
    login: () => call(loginOptions, '/login'),
    /** The CA certificates that verify the databases' certificates, in PEM. */
    async authority(): Promise<string> {
      const answer = await send('/ca.pem', {})
      if (answer.status !== 200) throw refusal(present(), requestOf('/ca.pem'), answer)
      return answer.text
    },
  }
}
export type Client = ReturnType<typeof createClient>
