/** Builds requests that change services, and snippets for their clients. Pure. */
import type { Schemas } from '../api/client.ts'
import { shellWord } from './snippets.ts'

export type Service = Schemas['ServiceConfig']
export type ServiceInput = Schemas['ServiceConfigInput']

export const serviceTypes = ['mcp', 'rest', 'rag'] as const
export type ServiceType = (typeof serviceTypes)[number]

/** The API's schema for the settings of each type. */
export const settingsSchema: Record<ServiceType, string> = {
  mcp: 'MCPServiceConfigInput',
  rest: 'RestServiceConfigInput',
  rag: 'RAGServiceConfigInput',
}

/**
 * Returns the input for a service that the request keeps unchanged. The API keeps omitted fields, such as tokens and
 * keys.
 */
function unchanged({ service_type, service_id, rest_config, rag_config }: Service): ServiceInput {
  return {
    service_type,
    ...(service_id === undefined ? {} : { service_id }),
    ...(rest_config === undefined ? {} : { rest_config }),
    ...(rag_config === undefined ? {} : { rag_config }),
    // The API accepts the values that it returned.
  } as ServiceInput
}

/**
 * Returns the services of a request. They replace all services of the database.
 * @param next the new service of this type; undefined removes the service
 */
export const servicesAfter = (known: readonly Service[], type: string, next: ServiceInput | undefined) => [
  ...known.filter(service => service.service_type !== type).map(unchanged),
  ...(next === undefined ? [] : [next]),
]

export const settingsOf = ({ mcp_config, rest_config, rag_config }: Service): unknown =>
  mcp_config ?? rest_config ?? rag_config

/**
 * Returns the token that clients send. Returns undefined for a REST service, because its clients send JWTs of other
 * issuers.
 */
export const tokenOf = ({ mcp_config: mcp, bearer_token: bearer }: Service): string | undefined =>
  bearer ?? mcp?.init_tokens?.split(',')[0]?.trim()

export const serviceSnippets = {
  mcp: ['claude', 'claudeDesktop', 'cursor', 'vscode', 'curl'],
  rest: ['postgrest', 'curl'],
  rag: ['curl'],
} as const satisfies Record<ServiceType, readonly string[]>
export type ServiceSnippet = (typeof serviceSnippets)[ServiceType][number]

export const tokenVariable = {
  mcp: 'ESPALIER_MCP_TOKEN',
  rag: 'ESPALIER_RAG_TOKEN',
} as const

const json = (value: unknown): string => JSON.stringify(value, null, 2)
const bearer = (type: keyof typeof tokenVariable): string => `"Authorization: Bearer $${tokenVariable[type]}"`

const ofMcp = (name: string, url: string): Partial<Record<ServiceSnippet, string>> => ({
  claude: json({
    mcpServers: { [name]: { type: 'http', url, headers: { Authorization: `Bearer \${${tokenVariable.mcp}}` } } },
  }),
  claudeDesktop: json({
    mcpServers: {
      [name]: {
        command: 'npx',
        args: ['-y', 'mcp-remote', url, '--header', `Authorization:\${AUTH_HEADER}`],
        env: { AUTH_HEADER: 'Bearer TOKEN' },
      },
    },
  }),
  cursor: json({
    mcpServers: { [name]: { url, headers: { Authorization: `Bearer \${env:${tokenVariable.mcp}}` } } },
  }),
  vscode: json({
    inputs: [{ type: 'promptString', id: 'token', description: 'Token of the tool server', password: true }],
    servers: { [name]: { type: 'http', url, headers: { Authorization: `Bearer \${input:token}` } } },
  }),
  curl: `curl -s ${shellWord(url)} -H ${bearer('mcp')} \\
  -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \\
  -d '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'`,
})

const ofRest = (uri: string): Partial<Record<ServiceSnippet, string>> => ({
  postgrest: `import { PostgrestClient } from '@supabase/postgrest-js'

const client = new PostgrestClient(${JSON.stringify(uri)})
const { data, error } = await client.from('my_table').select('*').limit(10)`,
  curl: `curl -s ${shellWord(`${uri}/my_table?limit=10`)}`,
})

/** Returns the configuration or code with which a program uses a service. It does not contain the token. */
export function serviceSnippet(type: ServiceType, program: ServiceSnippet, name: string, service: Service): string {
  const uri = service.uri ?? ''
  const pipeline = service.rag_config?.pipelines[0]?.name ?? 'my_pipeline'
  const rag = `curl -s ${shellWord(`${uri}/v1/pipelines/${encodeURIComponent(pipeline)}`)} -H ${bearer('rag')} \\
  -H 'Content-Type: application/json' -d '{"query": "my question", "include_sources": true}'`
  const found = type === 'mcp' ? ofMcp(name, `${uri}/v1`)[program] : type === 'rest' ? ofRest(uri)[program] : rag
  return found ?? ''
}
