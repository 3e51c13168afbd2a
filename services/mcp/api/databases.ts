/** Reports the databases that a caller may use, the database that its session has selected, and the caller's name. */
import { z } from 'zod'
import type { JsonObject } from '../../mcp-protocol/json.ts'
import type { DatabaseSettings } from '../configuration/types.ts'
import type { DatabaseEntries } from '../database/entries.ts'
import { parseBody } from './body.ts'
import { ApiError } from './errors.ts'
import type { ApiRoute } from './route.ts'

const selection = z.object({ name: z.string().min(1, 'must not be empty').max(255) })

/** Omits passwords, files and limits. */
const entryOf = ({ name, host, port, database, user, sslmode }: DatabaseSettings): JsonObject => ({
  name,
  host,
  port,
  database,
  user,
  sslmode,
})

export const databaseRoutes = (entries: DatabaseEntries): readonly ApiRoute[] => [
  {
    method: 'GET',
    path: '/api/databases',
    answer: async ({ caller }) => ({
      status: 200,
      body: {
        databases: entries.available(caller).map(entryOf),
        current: entries.current(caller)?.name ?? '',
      },
    }),
  },
  {
    method: 'POST',
    path: '/api/databases/select',
    answer: async ({ caller, body }) => {
      const { name } = parseBody(selection, body)
      switch (entries.select(caller, name)) {
        case 'selected':
          return { status: 200, body: { success: true, current: name, message: `The database ${name} is selected` } }
        case 'forbidden':
          throw new ApiError(403, 'this database may not be used with this token')
        case 'unknown':
          throw new ApiError(404, 'no database of this name is configured')
      }
    },
  },
  {
    method: 'GET',
    path: '/api/user/info',
    answer: async ({ caller: { kind, principal, username } }) => ({
      status: 200,
      body: { authenticated: kind !== 'anyone', username: username ?? principal },
    }),
  },
]
