/**
 * Test doubles of all providers. One server on 127.0.0.1 implements their protocols, and refuses requests that they
 * would refuse. A response is a function of the request, or a queued failure.
 */
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { z } from 'zod'
import { type Language, type Reply, type Understood, understand } from './languages.ts'
import { bodyOrEvents, failureIn, piecesIn } from './streams.ts'

type Failure =
  | { readonly status: number; readonly headers?: Record<string, string>; readonly body?: string | Uint8Array }
  | 'hang'
  /** Fails a streamed response after its first text. */
  | 'fail midway'
  | 'end midway'
  | 'hang midway'
  | 'reset midway'
  /** Sends pieces forever. */
  | 'endless'
  | 'reset'

type Seen = {
  readonly path: string
  readonly body: unknown
  readonly headers: IncomingHttpHeaders
  /** The client's port, which identifies the connection. */
  readonly clientPort: number | undefined
  readonly understood?: Understood
}

export type ProviderDouble = {
  readonly url: string
  /** Received requests in order, including failed requests. */
  readonly seen: Seen[]
  /** Failures for the next requests. Each failure is used once. */
  readonly failures: Failure[]
  /** The number of requests in progress. */
  open(): number
  stop(): Promise<void>
}

type Behaviour = {
  readonly key?: string
  readonly embed?: (text: string, purpose: string) => readonly number[] | Promise<readonly number[]>
  readonly reply?: (question: Understood, language: Language) => Reply
  /** The score of a document. */
  readonly rank?: (query: string, document: string) => number
}

const listBody = z.object({
  model: z.string(),
  input: z.array(z.string()),
  input_type: z.string().optional(),
  encoding_format: z.string().optional(),
})
const geminiBatch = z.object({
  requests: z
    .array(
      z.object({
        model: z.string().startsWith('models/'),
        content: z.object({ parts: z.tuple([z.object({ text: z.string() })]) }),
        taskType: z.string(),
      }),
    )
    .max(100),
})

const rerankBody = z.strictObject({
  query: z.string(),
  documents: z.array(z.string()).min(1).max(1_000),
  model: z.string(),
  top_k: z.int().min(1),
})

function rankAll(body: unknown, rank: (query: string, document: string) => number): object {
  const { query, documents, top_k } = rerankBody.parse(body)
  const ranked = documents.map((document, index) => ({ index, relevance_score: rank(query, document) }))
  return { object: 'list', data: ranked.toSorted((a, b) => b.relevance_score - a.relevance_score).slice(0, top_k) }
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const pieces: Buffer[] = []
  for await (const piece of request) pieces.push(piece)
  const text = Buffer.concat(pieces).toString()
  return text === '' ? undefined : JSON.parse(text)
}

const headOf = ({ url = '', headers, socket }: IncomingMessage) => ({
  path: url,
  headers,
  clientPort: socket.remotePort,
})

const languageOf = (path: string): Language | undefined => {
  if (path === '/v1/chat/completions') return 'openai'
  if (path === '/v1/messages') return 'anthropic'
  if (path === '/api/chat') return 'ollama'
  return /:(stream)?[gG]enerateContent$/.test(path) ? 'gemini' : undefined
}

const isStreamed = (path: string, body: unknown): boolean =>
  path.endsWith(':streamGenerateContent') ||
  (typeof body === 'object' && body !== null && 'stream' in body && body.stream === true)

const models = {
  '/v1/models': { data: [{ id: 'small-1', display_name: 'Small', created: 1 }] },
  '/v1beta/models': {
    models: [
      { name: 'models/small-1', displayName: 'Small', supportedGenerationMethods: ['generateContent'] },
      { name: 'models/embedding-1', supportedGenerationMethods: ['embedContent'] },
    ],
  },
  '/api/tags': { models: [{ name: 'small-1', size: 1 }] },
}

export async function startProviderDouble(behaviour: Behaviour = {}): Promise<ProviderDouble> {
  const { key, embed = text => [text.length, 1, 0], reply = () => ({ text: 'Well.' }), rank = () => 0.5 } = behaviour
  const seen: Seen[] = []
  const failures: Failure[] = []

  const isKnown = ({ headers }: IncomingMessage) =>
    key === undefined ||
    [headers.authorization, headers['x-api-key'], headers['x-goog-api-key']].some(
      sent => sent === key || sent === `Bearer ${key}`,
    )

  async function embedAll(path: string, body: unknown): Promise<object | undefined> {
    if (path === '/v1/embeddings' || path === '/api/embed') {
      const { input, input_type = '' } = listBody.parse(body)
      const vectors = await Promise.all(input.map(text => embed(text, input_type)))
      if (path === '/api/embed') return { model: 'm', embeddings: vectors }
      // The order differs from the request, because the vectors are numbered.
      return {
        object: 'list',
        data: vectors.map((embedding, index) => ({ object: 'embedding', index, embedding })).reverse(),
      }
    }
    if (!path.endsWith(':batchEmbedContents')) return undefined
    const { requests } = geminiBatch.parse(body)
    const vectors = await Promise.all(requests.map(({ content, taskType }) => embed(content.parts[0].text, taskType)))
    return { embeddings: vectors.map(values => ({ values })) }
  }

  async function answer(request: IncomingMessage): Promise<object | readonly string[] | undefined> {
    const path = (request.url ?? '').replace(/\?.*/, '')
    const body = await bodyOf(request)
    const language = languageOf(path)
    const understood = language === undefined ? undefined : understand[language](body)
    seen.push({ ...headOf(request), body, ...(understood && { understood }) })
    if (language !== undefined && understood !== undefined)
      return bodyOrEvents(language, reply(understood, language), isStreamed(path, body))
    if (request.method === 'GET') return Object.entries(models).find(([at]) => at === path)?.[1]
    return path === '/v1/rerank' ? rankAll(body, rank) : embedAll(path, body)
  }

  /** Splits each piece in the middle, because chunk boundaries have no meaning. */
  function writePieces(response: ServerResponse, pieces: readonly string[]): void {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const bytes = Buffer.from(pieces.join(''))
    for (let from = 0; from < bytes.length; from += 7) response.write(bytes.subarray(from, from + 7))
    response.end()
  }

  function breakMidway(failure: string, request: IncomingMessage, response: ServerResponse): void {
    const language = languageOf((request.url ?? '').replace(/\?.*/, '')) ?? 'openai'
    const pieces = piecesIn[language]({ text: 'Well begun' })
    const first = pieces.findIndex(piece => piece.includes('Well'))
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(pieces.slice(0, first + 1).join(''))
    if (failure === 'fail midway') response.end(failureIn[language])
    else if (failure === 'end midway') response.end()
    else if (failure === 'reset midway') setTimeout(() => request.socket.resetAndDestroy(), 20)
    else if (failure === 'endless') goOn(response, pieces[first] ?? '')
  }

  /** Writes pieces only as fast as the client reads them. */
  function goOn(response: ServerResponse, piece: string): void {
    if (response.destroyed) return
    if (response.write(piece.repeat(100))) setImmediate(() => goOn(response, piece))
    else response.once('drain', () => goOn(response, piece))
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const respond = (status: number, body: unknown, headers: Record<string, string> = {}) =>
      response
        .writeHead(status, { 'content-type': 'application/json', ...headers })
        .end(typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body))
    const failure = failures.shift()
    if (failure !== undefined) seen.push({ ...headOf(request), body: await bodyOf(request) })
    if (failure === 'hang') return
    if (failure === 'reset') return void request.socket.resetAndDestroy()
    if (typeof failure === 'string') return breakMidway(failure, request, response)
    if (failure !== undefined)
      return void respond(failure.status, failure.body ?? '{"error":{"message":"trouble"}}', failure.headers)
    if (!isKnown(request))
      return void respond(401, { error: { message: `Incorrect API key provided: ${request.headers.authorization}` } })
    try {
      const answered = await answer(request)
      if (answered === undefined) respond(404, { error: { message: 'no such path' } })
      else if (Array.isArray(answered)) writePieces(response, answered)
      else respond(200, answered)
    } catch (error) {
      respond(400, { error: { message: `invalid request: ${String(error)}` } })
    }
  }

  let open = 0
  const server = createServer((request, response) => {
    open += 1
    response.once('close', () => {
      open -= 1
    })
    void serve(request, response)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo // The address of a TCP server.
  return {
    url: `http://127.0.0.1:${port}`,
    seen,
    failures,
    open: () => open,
    stop: async () => {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}
