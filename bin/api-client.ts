/**
 * The few calls of the API that commands make, as a user's own script would make them. A token never leaves this process
 * in clear text but to this machine, and never goes to a server whose certificate is not verified.
 */
import { z } from 'zod'
import { type Answer, send, whyOf } from './request.ts'

const connection = z.object({
  username: z.string(),
  password: z.string(),
  host: z.string().optional(),
  port: z.number(),
  database: z.string(),
})
export type Connection = z.output<typeof connection>

const database = z.object({
  id: z.string(),
  name: z.string(),
  status: z.string(),
  display_name: z.string().nullish(),
  domain: z.string().optional(),
  ip_allowlist: z.object({ rules: z.array(z.object({ cidr: z.string() })), state: z.string().optional() }),
  connection: connection.optional(),
  services: z
    .array(
      z.object({
        service_type: z.string(),
        state: z.string(),
        uri: z.string().nullish(),
        mcp_config: z.object({ init_tokens: z.string().optional() }).optional(),
      }),
    )
    .optional(),
})
export type Database = z.output<typeof database>

const branch = z.object({
  id: z.string(),
  name: z.string(),
  status: z.string(),
  display_name: z.string().nullish(),
  domain: z.string().optional(),
  connection: connection.optional(),
})
export type Branch = z.output<typeof branch>

/** As the query `user_type` of a single read names the roles. */
export type UserType = 'application' | 'admin' | 'application_read_only'

/** Where the API is, and who asks it. */
export type Api = {
  url: URL
  token: string
  /** The authorities that its certificate is verified with, in PEM; absent: the public ones. */
  authority?: string | undefined
  /** What its certificate is issued for, where that is not the host of the URL. */
  name?: string | undefined
}

class ApiFailure extends Error {
  override readonly name = 'ApiFailure'
}

const pageLength = 1000
const branchPageLength = 100

type Call = { method?: string; body?: unknown; wait?: boolean }

/** @throws ApiFailure where no whole answer arrives */
async function ask({ url, token, authority, name }: Api, path: string, call: Call): Promise<Answer> {
  const { method, body, wait = false } = call
  const headers = { authorization: `Bearer ${token}`, ...(wait ? { prefer: 'wait=60' } : {}) }
  try {
    return await send(new URL(`/managed/v1${path}`, url), { method, headers, body, authority, name })
  } catch (error) {
    throw new ApiFailure(`cannot reach the API at ${url.origin}: ${whyOf(error)}`, { cause: error })
  }
}

const errorBody = z.object({ message: z.string() })

/** The API's own words where it has said any. */
function refusal(what: string, { status, text }: Answer): ApiFailure {
  const told = errorBody.safeParse(readJson(text)).data?.message
  return new ApiFailure(`${what}: the API answers ${status}${told === undefined ? '' : `, ${told}`}`)
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** All pages of a list. */
async function whole<T>(length: number, read: (offset: number) => Promise<T[]>): Promise<T[]> {
  const all: T[] = []
  for (;;) {
    const page = await read(all.length)
    all.push(...page)
    if (page.length < length) return all
  }
}

/** A client of one tenant. Every change waits (`Prefer: wait`) until it is in force. */
export function createClient(api: Api) {
  async function call<S extends z.ZodType>(shape: S, path: string, options: Call = {}): Promise<z.output<S>> {
    const answer = await ask(api, path, options)
    const what = `${options.method ?? 'GET'} ${path}`
    if (answer.status < 200 || answer.status > 299) throw refusal(what, answer)
    const body = shape.safeParse(readJson(answer.text))
    if (!body.success) throw new ApiFailure(`${what}: what answers is not the API of Espalier`)
    return body.data
  }
  return {
    clientIp: async () => (await call(z.object({ ip_address: z.string() }), '/client-ip')).ip_address,
    create: (input: object) => call(database, '/databases', { method: 'POST', body: input, wait: true }),
    /** `wait`: until nothing is under way any more, for a minute at most. */
    read: (id: string, userType: UserType = 'application', wait = false) =>
      call(database, `/databases/${id}?user_type=${userType}`, { wait }),
    change: (id: string, input: object) =>
      call(database, `/databases/${id}`, { method: 'PATCH', body: input, wait: true }),
    /** A backup of the database as it is, once it is completed. */
    backUp: (id: string) =>
      call(z.object({ id: z.string(), status: z.string() }), `/databases/${id}/backup`, {
        method: 'POST',
        body: { kind: 'hot' },
        wait: true,
      }),
    restore: (id: string, backupId: string) =>
      call(database, `/databases/${id}/restore`, { method: 'POST', body: { backup_id: backupId }, wait: true }),
    remove: async (id: string) => {
      await call(z.undefined(), `/databases/${id}`, { method: 'DELETE', wait: true })
    },
    /** A branch of the database as it is, once it is available, with its connection. */
    async branch(id: string) {
      const made = await call(branch, `/databases/${id}/branches`, { method: 'POST', wait: true })
      return call(branch, `/databases/${id}/branches/${made.id}`)
    },
    /** `wait`: until nothing is under way any more, for a minute at most. */
    readBranch: (id: string, branchId: string, userType: UserType, wait = false) =>
      call(branch, `/databases/${id}/branches/${branchId}?user_type=${userType}`, { wait }),
    /** All branches of the database that live, at any depth, oldest first. */
    branches: (id: string): Promise<Branch[]> =>
      whole(branchPageLength, offset =>
        call(z.array(branch), `/databases/${id}/branches?limit=${branchPageLength}&offset=${offset}`),
      ),
    removeBranch: async (id: string, branchId: string) => {
      await call(z.undefined(), `/databases/${id}/branches/${branchId}`, { method: 'DELETE', wait: true })
    },
    /** All databases of the account, oldest first. */
    list: (): Promise<Database[]> =>
      whole(pageLength, offset => call(z.array(database), `/databases?limit=${pageLength}&offset=${offset}`)),
    /** The certificates that databases' certificates are verified with, in PEM. */
    async authority(): Promise<string> {
      const answer = await ask(api, '/ca.pem', {})
      if (answer.status !== 200) throw refusal('GET /ca.pem', answer)
      return answer.text
    },
  }
}
export type Client = ReturnType<typeof createClient>
