/** The few calls of the API that the tour makes, with plain fetch, as a user's own script would. */
import { z } from 'zod'

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
  ip_allowlist: z.object({ rules: z.array(z.object({ cidr: z.string() })), state: z.string().optional() }),
  connection: connection.optional(),
})
export type Database = z.output<typeof database>

class ApiFailure extends Error {
  override readonly name = 'ApiFailure'
}

/** A client of one tenant. Every change waits (`Prefer: wait`) until it is in force. */
export function createClient(base: string, token: string) {
  async function call(method: string, path: string, body?: unknown): Promise<unknown> {
    const response = await fetch(`${base}/managed/v1${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        prefer: 'wait=60',
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    if (!response.ok) throw new ApiFailure(`${method} ${path}: ${response.status} ${text}`)
    return text === '' ? undefined : JSON.parse(text)
  }
  return {
    clientIp: async () => z.object({ ip_address: z.string() }).parse(await call('GET', '/client-ip')).ip_address,
    create: async (input: object) => database.parse(await call('POST', '/databases', input)),
    read: async (id: string) => database.parse(await call('GET', `/databases/${id}`)),
    change: async (id: string, input: object) => database.parse(await call('PATCH', `/databases/${id}`, input)),
    remove: async (id: string) => {
      await call('DELETE', `/databases/${id}`)
    },
    list: async () => z.array(database).parse(await call('GET', '/databases')),
  }
}
