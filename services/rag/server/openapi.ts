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
    'With `stream: true` the answer is a stream of server-sent events, each one line `data: ` with a StreamEvent as JSON, and a blank line. The response headers are sent with the first event: an earlier error is a response with its own status, a later one is an `error` event, the last one.',
  tags: ['pipelines'],
  parameters: [
    { name: 'name', in: 'path', required: true, description: "The pipeline's name", schema: { type: 'string' } },
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
    400: error('INVALID_REQUEST: the body or its filter is invalid'),
    403: error('FORBIDDEN: the server is for this machine only, and Host is not in server.allowed_hosts'),
    404: error('PIPELINE_NOT_FOUND'),
    405: error('METHOD_NOT_ALLOWED'),
    408: error('INVALID_REQUEST: the body arrived too slowly'),
    413: error('REQUEST_TOO_LARGE: the body has more than 1 MiB'),
    415: error('INVALID_REQUEST: the body is not application/json'),
    500: error('EXECUTION_ERROR: the database or a provider failed. INTERNAL_ERROR: unexpected'),
    503: error(
      'OVERLOADED: the pipeline has its maximum of concurrent requests. DATABASE_UNAVAILABLE: the database cannot be reached',
      retryAfter,
    ),
    504: error('REQUEST_TIMEOUT'),
  },
}

const reachability = object(
  {
    reachable: { type: 'boolean' },
    error: text('Why it is not reachable'),
    warnings: list({ type: 'string' }, 'The problems found'),
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
      error: object(
        { code: text('The error code, such as INVALID_REQUEST'), message: text('The error, with its field') },
        ['code', 'message'],
      ),
    },
    ['error'],
  ),
  Condition: object(
    {
      column: text('A column of the searched tables', { minLength: 1, maxLength: 63 }),
      operator: text('The comparison operator', { enum: [...comparisons, ...lists, ...tests] }),
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
      conditions: list(reference('Condition'), 'Combined by logic', { maxItems: 50 }),
      logic: text('How the conditions are combined', { enum: ['AND', 'OR'], default: 'AND' }),
    },
    ['conditions'],
  ),
  Message: object(
    {
      role: text('The sender of the message', { enum: ['user', 'assistant'] }),
      content: text('The text of the message'),
    },
    ['role', 'content'],
  ),
  Query: object(
    {
      query: text('The question', { minLength: 1, maxLength: 32_000 }),
      stream: { type: 'boolean', default: false, description: 'Whether the answer is a stream of events' },
      top_n: integer('How many documents to use for the answer', { minimum: 1, maximum: mostTopN }),
      filter: reference('Filter'),
      include_sources: { type: 'boolean', default: false, description: 'Whether to return the documents as well' },
      messages: list(reference('Message'), 'The previous messages, oldest first', { maxItems: 200 }),
    },
    ['query'],
  ),
  Source: object(
    {
      id: text("The document's id"),
      content: text('Its text'),
      score: { type: 'number', description: 'Higher is better' },
    },
    ['content', 'score'],
  ),
  Answer: object(
    {
      answer: text("The language model's answer"),
      sources: list(reference('Source'), 'Only with include_sources; best first'),
      tokens_used: integer('Total of the embedding, reranking, prompt and answer'),
    },
    ['answer', 'tokens_used'],
  ),
  StreamEvent: object(
    {
      type: text('done and error are the last event', { enum: ['chunk', 'done', 'error'] }),
      content: text('In a chunk event: the next part of the answer'),
      error: object({ code: text('STREAMING_ERROR or REQUEST_TIMEOUT'), message: text('The error message') }, [
        'code',
        'message',
      ]),
    },
    ['type'],
  ),
  Health: object(
    {
      status: text('degraded: a component is not reachable', { enum: ['healthy', 'degraded'] }),
      pipelines: list(
        object(
          {
            name: text("The pipeline's name"),
            embedding: reachability,
            completion: reachability,
            database: reachability,
          },
          ['name', 'embedding', 'completion', 'database'],
        ),
        'Checked at most every 10 seconds',
      ),
    },
    ['status', 'pipelines'],
  ),
  Ready: object({ status: text('not_ready has the status 503', { enum: ['ready', 'not_ready'] }) }, ['status']),
  Live: object({ status: text('Always ok', { enum: ['ok'] }) }, ['status']),
  Pipelines: pipelines(
    object({ name: text('The name in request paths'), description: text("The pipeline's description") }, [
      'name',
      'description',
    ]),
  ),
  Stats: pipelines(
    object(
      {
        name: text("The pipeline's name"),
        description: text("The pipeline's description"),
        embedding: usage,
        completion: usage,
      },
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
    '/v1/pipelines': get('listPipelines', 'List the pipelines', answer('All pipelines', reference('Pipelines'))),
    '/v1/health': get(
      'getHealth',
      'Check databases and providers',
      answer('The state, also if a component is not reachable', reference('Health')),
    ),
    '/v1/live': get(
      'getLive',
      'Check that the server runs',
      answer('The server runs; nothing else is checked', reference('Live')),
    ),
    '/ready/database': get(
      'getReady',
      'Check that every database has been reached once, for startup probes',
      answer('Every database has been reached; 503 until then', reference('Ready')),
    ),
    '/v1/stats': get('getStats', 'Count tokens', answer('Since the server started', reference('Stats'))),
    '/v1/openapi.json': get('getOpenapi', 'Read this description', answer('OpenAPI 3.0.3', { type: 'object' })),
  },
  components: { schemas },
}
