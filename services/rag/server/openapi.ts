/** The description of the HTTP API, OpenAPI 3.0.3. */
import { version } from '../../../server/version.ts'
import { mostTopN } from '../request/body.ts'
import { comparisons, lists, tests } from '../request/filter.ts'

type Schema = Readonly<Record<string, unknown>>

const text = (description: string, more: Schema = {}): Schema => ({ type: 'string', description, ...more })
const integer = (description: string, more: Schema = {}): Schema => ({ type: 'integer', description, ...more })
const list = (items: Schema, description: string, more: Schema = {}): Schema => ({
  type: 'array',
  items,
  description,
  ...more,
})
const object = (properties: Readonly<Record<string, Schema>>, required: readonly string[]): Schema => ({
  type: 'object',
  properties,
  ...(required.length > 0 && { required }),
})
const reference = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` })

const serviceLink = { Link: { description: 'The description of the API (RFC 8631)', schema: { type: 'string' } } }
const answer = (description: string, schema: Schema, headers: Schema = {}) => ({
  description,
  headers: { ...serviceLink, ...headers },
  content: { 'application/json': { schema } },
})
const error = (description: string, headers: Schema = {}) => answer(description, reference('Error'), headers)
const searchIncomplete = {
  'Search-Incomplete': {
    description: 'The search took too long, and some of the rows that the filter accepts were not searched',
    schema: { type: 'string', enum: ['true'] },
  },
}
const retryAfter = { 'Retry-After': { description: 'Seconds to wait', schema: { type: 'integer' } } }

const get = (operationId: string, summary: string, ok: object) => ({
  get: { operationId, summary, tags: ['server'], responses: { 200: ok, '4XX': error('The request is refused') } },
})

const queryOperation = {
  operationId: 'queryPipeline',
  summary: 'Answer a question from the documents of a pipeline',
  description:
    'With `stream: true` the answer is a stream of server-sent events, each one line `data: ` with a StreamEvent as JSON, and a blank line. Its head is sent with the first of them: a fault before is an error of its own status, a fault after is an `error` event, the last one.',
  tags: ['pipelines'],
  parameters: [
    { name: 'name', in: 'path', required: true, description: 'Of the pipeline', schema: { type: 'string' } },
  ],
  requestBody: { required: true, content: { 'application/json': { schema: reference('Query') } } },
  responses: {
    200: {
      description: 'The answer, or a stream of it',
      headers: { ...serviceLink, ...searchIncomplete },
      content: {
        'application/json': { schema: reference('Answer') },
        'text/event-stream': { schema: reference('StreamEvent') },
      },
    },
    400: error('INVALID_REQUEST: the body or its filter is not valid'),
    403: error('FORBIDDEN: the server is for this machine only, and Host is not in server.allowed_hosts'),
    404: error('PIPELINE_NOT_FOUND'),
    405: error('METHOD_NOT_ALLOWED'),
    408: error('INVALID_REQUEST: the body is too slow'),
    413: error('REQUEST_TOO_LARGE: the body has more than 1 MiB'),
    415: error('INVALID_REQUEST: the body is not application/json'),
    500: error('EXECUTION_ERROR: the database or a provider failed. INTERNAL_ERROR: unexpected'),
    503: error(
      'OVERLOADED: the pipeline answers as many requests as it may. DATABASE_UNAVAILABLE: the database cannot be reached',
      retryAfter,
    ),
    504: error('REQUEST_TIMEOUT'),
  },
}

const reachability = object(
  {
    reachable: { type: 'boolean' },
    error: text('Why it is not reachable'),
    warnings: list({ type: 'string' }, 'What is not as it should be'),
  },
  ['reachable'],
)
const usage = object(
  { prompt_tokens: integer('Sent'), completion_tokens: integer('Received'), total_tokens: integer('Both') },
  ['prompt_tokens', 'completion_tokens', 'total_tokens'],
)
const pipelines = (items: Schema) =>
  object({ pipelines: list(items, 'In the order of the configuration') }, ['pipelines'])

const schemas = {
  Error: object(
    {
      error: object({ code: text('Such as INVALID_REQUEST'), message: text('What is wrong, and with which field') }, [
        'code',
        'message',
      ]),
    },
    ['error'],
  ),
  Condition: object(
    {
      column: text('Of the searched tables', { minLength: 1, maxLength: 63 }),
      operator: text('How the column is compared', { enum: [...comparisons, ...lists, ...tests] }),
      value: {
        description: `A text, a number, true or false; a list of them with ${lists.join(' and ')}; absent or null with ${tests.join(' and ')}`,
        oneOf: [
          { type: 'string', maxLength: 10_000, nullable: true },
          { type: 'number' },
          { type: 'boolean' },
          {
            type: 'array',
            maxItems: 1_000,
            items: { oneOf: [{ type: 'string', maxLength: 10_000 }, { type: 'number' }, { type: 'boolean' }] },
          },
        ],
      },
    },
    ['column', 'operator'],
  ),
  Filter: object(
    {
      conditions: list(reference('Condition'), 'Joined by logic', { maxItems: 50 }),
      logic: text('How the conditions are joined', { enum: ['AND', 'OR'], default: 'AND' }),
    },
    ['conditions'],
  ),
  Message: object({ role: text('Who says it', { enum: ['user', 'assistant'] }), content: text('What is said') }, [
    'role',
    'content',
  ]),
  Query: object(
    {
      query: text('The question', { minLength: 1, maxLength: 32_000 }),
      stream: { type: 'boolean', default: false, description: 'Whether the answer is a stream of events' },
      top_n: integer('How many documents to answer from', { minimum: 1, maximum: mostTopN }),
      filter: reference('Filter'),
      include_sources: { type: 'boolean', default: false, description: 'Whether to return the documents as well' },
      messages: list(reference('Message'), 'The conversation before, the oldest first', { maxItems: 200 }),
    },
    ['query'],
  ),
  Source: object(
    {
      id: text('Of the document'),
      content: text('Its text'),
      score: { type: 'number', description: 'More is better' },
    },
    ['content', 'score'],
  ),
  Answer: object(
    {
      answer: text('By the language model'),
      sources: list(reference('Source'), 'Only with include_sources; the best first'),
      tokens_used: integer('Of the embedding, of reranking, and of prompt and answer'),
    },
    ['answer', 'tokens_used'],
  ),
  StreamEvent: object(
    {
      type: text('done and error are the last event', { enum: ['chunk', 'done', 'error'] }),
      content: text('Of a chunk: how the answer goes on'),
      error: object({ code: text('STREAMING_ERROR or REQUEST_TIMEOUT'), message: text('What is wrong') }, [
        'code',
        'message',
      ]),
    },
    ['type'],
  ),
  Health: object(
    {
      status: text('degraded: something is not reachable', { enum: ['healthy', 'degraded'] }),
      pipelines: list(
        object(
          { name: text('Of the pipeline'), embedding: reachability, completion: reachability, database: reachability },
          ['name', 'embedding', 'completion', 'database'],
        ),
        'Checked at most every 10 seconds',
      ),
    },
    ['status', 'pipelines'],
  ),
  Live: object({ status: text('Always ok', { enum: ['ok'] }) }, ['status']),
  Pipelines: pipelines(
    object({ name: text('As paths have it'), description: text('What it answers') }, ['name', 'description']),
  ),
  Stats: pipelines(
    object(
      { name: text('Of the pipeline'), description: text('What it answers'), embedding: usage, completion: usage },
      ['name', 'description', 'embedding', 'completion'],
    ),
  ),
}

export const openApi = {
  openapi: '3.0.3',
  info: {
    title: 'Espalier retrieval server',
    description:
      'Answers questions from documents in Postgres. The server has no authentication: deploy it behind a proxy or gateway that has.',
    version,
    license: { name: 'Apache-2.0', url: 'https://www.apache.org/licenses/LICENSE-2.0' },
  },
  servers: [{ url: '/', description: 'This server' }],
  security: [],
  tags: [
    { name: 'pipelines', description: 'Questions and answers' },
    { name: 'server', description: 'The server itself' },
  ],
  paths: {
    '/v1/pipelines/{name}': { post: queryOperation },
    '/v1/pipelines': get('listPipelines', 'List the pipelines', answer('All of them', reference('Pipelines'))),
    '/v1/health': get(
      'getHealth',
      'Check databases and providers',
      answer('Also where something is not reachable', reference('Health')),
    ),
    '/v1/live': get(
      'getLive',
      'Check that the server runs',
      answer('It runs; nothing else is checked', reference('Live')),
    ),
    '/v1/stats': get('getStats', 'Count tokens', answer('Since the server started', reference('Stats'))),
    '/v1/openapi.json': get('getOpenapi', 'Read this description', answer('OpenAPI 3.0.3', { type: 'object' })),
  },
  components: { schemas },
}
