/**
 * A tool server over stdio for tests: `node server.ts [multiplexed] [modern]`. Its tools: `whoami` returns caller and
 * connection, `slow` waits, `progress` reports, `ask` sends a request to the client, `crash` ends the process.
 */
import { createInterface } from 'node:readline'

type Fields = { [key: string]: unknown }
type Message = { id?: unknown; method?: string; params?: Fields; result?: Fields; error?: Fields } & Fields

const isMultiplexed = process.argv.includes('multiplexed')
const modernPrefix = 'io.modelcontextprotocol/'
const connectionField = 'espalier.dev/connection'
const waiting = new Map<string, (answer: Message) => void>()
const cancelled: unknown[] = []
const sessions: string[] = []
let questions = 0

const write = (message: Fields) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
const metaOf = (message: Message): Fields => (message.params?._meta ?? {}) as Fields // tests send objects
const own = (message: Message): Fields => (isMultiplexed ? { [connectionField]: metaOf(message)[connectionField] } : {})

const tools = ['whoami', 'slow', 'progress', 'ask', 'crash', 'cancelled', 'announce', 'log'].map(name => ({
  name,
  description: name,
  inputSchema: { type: 'object' },
  annotations: { readOnlyHint: true },
}))
const writing = { name: 'write', description: 'writes', inputSchema: { type: 'object' } }

const sleep = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

async function call(message: Message): Promise<unknown> {
  const { name, arguments: args = {} } = message.params as { name: string; arguments?: Fields } // tests send it so
  const meta = metaOf(message)
  switch (name) {
    case 'whoami':
      return { meta, args, pid: process.pid, sessions, secret: process.env.BRIDGE_SECRET ?? null }
    case 'slow':
      await sleep(Number(args.ms ?? 50))
      return args
    case 'progress':
      for (const progress of [1, 2, 3]) {
        const params = { progressToken: meta.progressToken, progress, _meta: own(message) }
        write({ method: 'notifications/progress', params })
        await sleep(Number(args.ms ?? 5))
      }
      return args
    case 'log':
      write({ method: 'notifications/message', params: { level: 'info', data: args, _meta: own(message) } })
      return args
    case 'ask': {
      const id = ++questions
      write({ id, method: 'elicitation/create', params: { message: args.question, _meta: own(message) } })
      const answer = await new Promise<Message>(resolve => waiting.set(String(id), resolve))
      return answer.result ?? answer.error
    }
    case 'announce':
      write({ method: String(args.method), params: { ...(args.params as Fields), _meta: own(message) } })
      return {}
    case 'cancelled':
      return cancelled
    case 'write':
      return 'written'
    default:
      process.exit(3)
  }
}

async function answer(message: Message): Promise<Fields> {
  switch (message.method) {
    case 'initialize': {
      sessions.push(String(metaOf(message)[connectionField]))
      const experimental = isMultiplexed ? { experimental: { 'espalier.dev/bridge': {} } } : {}
      const capabilities = {
        tools: { listChanged: true },
        resources: { subscribe: true },
        logging: {},
        ...experimental,
      }
      const protocolVersion = message.params?.protocolVersion
      return { result: { protocolVersion, capabilities, serverInfo: { name: 'scripted', version: '1' } } }
    }
    case 'server/discover':
      return {
        result: { resultType: 'complete', supportedVersions: ['2026-07-28'], capabilities: {}, pid: process.pid },
      }
    case 'tools/list':
      return { result: { tools: [...tools, writing] } }
    case 'tools/call': {
      if (message.params?.name === 'forbidden')
        return { error: { code: -32_603, message: 'no', data: { scopes: ['mcp:write'] } } }
      const text = JSON.stringify(await call(message))
      return { result: { content: [{ type: 'text', text }] } }
    }
    case 'resources/subscribe':
    case 'resources/unsubscribe':
      return { result: {} }
    case 'subscriptions/listen': {
      const _meta = { ...own(message), [`${modernPrefix}subscriptionId`]: message.id }
      write({ method: 'notifications/subscriptions/acknowledged', params: { _meta, notifications: {} } })
      write({ method: 'notifications/tools/list_changed', params: { _meta } })
      return { result: { resultType: 'complete', _meta } }
    }
    default:
      return { error: { code: -32_601, message: 'Method not found' } }
  }
}

process.stderr.write('scripted server starts\n')
for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line) as Message // the bridge writes objects
  if (message.method === 'notifications/cancelled' && message.id === undefined)
    cancelled.push(message.params?.requestId)
  else if (message.method === undefined) {
    waiting.get(String(message.id))?.(message)
  } else if (message.id !== undefined) void answer(message).then(rest => write({ id: message.id, ...rest }))
}
