/** The conversations of the calling user. For conversations of other users, the API returns 404. */
import { z } from 'zod'
import type { JsonObject } from '../../mcp-protocol/json.ts'
import type { Conversation, ConversationSummary } from '../conversations/conversation.ts'
import { ConversationError } from '../conversations/errors.ts'
import type { ConversationStore } from '../conversations/store.ts'
import type { Caller } from '../core/caller.ts'
import { parseBody } from './body.ts'
import { ApiError } from './errors.ts'
import type { ApiAnswer, ApiRequest, ApiRoute } from './route.ts'

const defaultLimit = 50
const mostListed = 100
const mostMessages = 10_000

const word = z.string().max(255, 'must have at most 255 characters')
const message = z.object({
  role: z.string().min(1, 'must not be empty').max(64, 'must have at most 64 characters'),
  content: z.string(),
  timestamp: z.iso.datetime({ offset: true, error: 'must be a time like 2030-01-31T00:00:00Z' }).optional(),
  provider: word.optional(),
  model: word.optional(),
})
const messages = z
  .array(message)
  .min(1, 'must have a message')
  .max(mostMessages, `must have at most ${mostMessages} messages`)
const created = z.object({
  provider: word.default(''),
  model: word.default(''),
  connection: word.default(''),
  messages,
})
const replaced = z.object({ provider: word.optional(), model: word.optional(), connection: word.optional(), messages })
const renamed = z.object({
  title: z.string().trim().min(1, 'must not be empty').max(500, 'must have at most 500 characters'),
})

/** Gives each message without a time the current time. */
const timed = (all: z.output<typeof messages>) => {
  const now = new Date().toISOString()
  return all.map(({ timestamp = now, ...rest }) => ({ ...rest, timestamp }))
}

const notFound = () => new ApiError(404, 'the conversation does not exist')

/** API tokens have no conversations: all clients with a token would share them. */
function usernameOf({ username }: Caller): string {
  if (username === undefined) throw new ApiError(401, 'conversations need a user: log in with authenticate_user')
  return username
}

function integerOf(query: URLSearchParams, name: string, otherwise: number, least: number): number {
  const text = query.get(name)
  if (text === null || text === '') return otherwise
  const value = /^\d{1,9}$/.test(text) ? Number(text) : -1
  if (value < least) throw new ApiError(400, `${name}: must be a whole number from ${least}`)
  return value
}

const jsonOf = (conversation: Conversation): JsonObject => ({
  ...conversation,
  messages: conversation.messages.map(one => ({ ...one })),
})
const summaryJson = (summary: ConversationSummary): JsonObject => ({ ...summary })

const retryAfterSeconds = 2

function toHttpError(error: unknown): unknown {
  if (!(error instanceof ConversationError)) return error
  switch (error.fault.kind) {
    case 'too many':
      return new ApiError(409, `there are ${error.fault.most} conversations already; delete some first`)
    case 'storage':
      return error
    case 'unavailable':
      return new ApiError(503, 'conversations cannot be read or written at the moment: try again', [
        ['Retry-After', String(retryAfterSeconds)],
      ])
  }
}

type ConversationRequest = { readonly username: string; readonly id: string; readonly request: ApiRequest }

export function conversationRoutes(conversations: ConversationStore): readonly ApiRoute[] {
  const route = (
    method: ApiRoute['method'],
    path: '/api/conversations' | '/api/conversations/{id}',
    answer: (request: ConversationRequest) => Promise<ApiAnswer>,
  ): ApiRoute => ({
    method,
    path,
    answer: async request => {
      const username = usernameOf(request.caller)
      try {
        return await answer({ username, id: request.parameters.id ?? '', request })
      } catch (error) {
        throw toHttpError(error)
      }
    },
  })

  return [
    route('GET', '/api/conversations', async ({ username, request: { query } }) => {
      const limit = Math.min(mostListed, integerOf(query, 'limit', defaultLimit, 1))
      const offset = integerOf(query, 'offset', 0, 0)
      const found = await conversations.list(username, limit, offset)
      return { status: 200, body: { conversations: found.map(summaryJson) } }
    }),
    route('POST', '/api/conversations', async ({ username, request: { body } }) => {
      const content = parseBody(created, body)
      const conversation = await conversations.create(username, { ...content, messages: timed(content.messages) })
      return { status: 201, body: jsonOf(conversation) }
    }),
    route('DELETE', '/api/conversations', async ({ username, request: { query } }) => {
      if (query.get('all') !== 'true') throw new ApiError(400, 'all: must be true, to delete all conversations')
      return { status: 200, body: { success: true, deleted: await conversations.removeAll(username) } }
    }),
    route('GET', '/api/conversations/{id}', async ({ username, id }) => {
      const conversation = await conversations.find(username, id)
      if (conversation === undefined) throw notFound()
      return { status: 200, body: jsonOf(conversation) }
    }),
    route('PUT', '/api/conversations/{id}', async ({ username, id, request: { body } }) => {
      const { messages: newMessages, ...rest } = parseBody(replaced, body)
      const named = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined))
      const conversation = await conversations.replace(username, id, { ...named, messages: timed(newMessages) })
      if (conversation === undefined) throw notFound()
      return { status: 200, body: jsonOf(conversation) }
    }),
    route('PATCH', '/api/conversations/{id}', async ({ username, id, request: { body } }) => {
      const { title } = parseBody(renamed, body)
      if (!(await conversations.rename(username, id, title))) throw notFound()
      return { status: 200, body: { success: true } }
    }),
    route('DELETE', '/api/conversations/{id}', async ({ username, id }) => {
      if (!(await conversations.remove(username, id))) throw notFound()
      return { status: 200, body: { success: true } }
    }),
  ]
}
