/**
 * Builds a request to a service, for the API and as a curl command. The page cannot send the request to the service,
 * because its content security policy allows only the API and the OpenID provider. Pure.
 */
import type { Schemas } from '../api/client.ts'
import { formatJson } from './format-json.ts'
import { shellWord } from './snippets.ts'

export const methods = ['GET', 'POST', 'PATCH', 'DELETE'] as const
type Method = (typeof methods)[number]

export type Trial = {
  /** `token` is empty if the request has no token. */
  rest: { method: Method; path: string; query: string; body: string; token: string }
  mcp: { tool: string; arguments: string }
  rag: { pipeline: string; question: string }
}

const continued = ' \\\n  '
const bearer = (variable: string): string => `-H "Authorization: Bearer $${variable}"`
const jsonType = "-H 'Content-Type: application/json'"

const hasBody = (method: Method): boolean => method === 'POST' || method === 'PATCH'

/** The request to the API, for each type of service. */
export type TryRequest =
  | { type: 'rest'; body: Schemas['RestTryInput'] }
  | { type: 'mcp'; body: Schemas['MCPTryInput'] }
  | { type: 'rag'; body: Schemas['RAGTryInput'] }

/** Returns the JSON on one line. Returns undefined if the text is not JSON. */
const jsonOf = (text: string): string | undefined => formatJson(text, '')

/** Returns the arguments of a tool. Returns undefined if the text is not a JSON object. */
function argumentsOf(text: string): Record<string, unknown> | undefined {
  if (text.trim() === '') return {}
  const json = jsonOf(text)
  const value: unknown = json === undefined ? undefined : JSON.parse(json)
  // JSON that begins with a brace is an object.
  return json?.startsWith('{') ? (value as Record<string, unknown>) : undefined
}

/** Encodes characters that a URL must not contain. Keeps `=`, `&` and the operators of PostgREST. */
const queryOf = (text: string): string =>
  encodeURI(text.toWellFormed().trim().replace(/^\?/, '')).replaceAll('#', '%23')

const pathOf = (text: string): string =>
  text
    .toWellFormed()
    .replace(/^\/+/, '')
    .split('/')
    .map(segment => encodeURIComponent(segment.trim()))
    .join('/')

/**
 * Functions that build the curl commands. Each function returns undefined if the body or the arguments are not valid
 * JSON.
 */
const commands: { [Type in keyof Trial]: (uri: string, trial: Trial[Type]) => string | undefined } = {
  rest: (uri, { method, path, query, body, token }) => {
    const encodedQuery = queryOf(query)
    const url = `${uri}/${pathOf(path)}${encodedQuery === '' ? '' : `?${encodedQuery}`}`
    const json = hasBody(method) ? jsonOf(body) : ''
    if (json === undefined) return undefined
    const verb = method === 'GET' ? [] : [`-X ${method}`]
    const sent = [
      ...(token === '' ? [] : [bearer('ESPALIER_REST_TOKEN')]),
      ...(hasBody(method) ? [jsonType, `-d ${shellWord(json)}`] : []),
    ]
    // With -g, curl does not expand brackets and braces.
    return [`curl -s -g ${[...verb, shellWord(url)].join(' ')}`, ...sent].join(continued)
  },
  mcp: (uri, { tool, arguments: text }) => {
    const toolArguments = argumentsOf(text)
    if (toolArguments === undefined) return undefined
    const params = { name: tool.trim(), arguments: toolArguments }
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params })
    const accepted = "-H 'Accept: application/json, text/event-stream'"
    return [
      `curl -s ${shellWord(`${uri}/v1`)}`,
      ...[bearer('ESPALIER_MCP_TOKEN'), jsonType, accepted, `-d ${shellWord(body)}`],
    ].join(continued)
  },
  rag: (uri, { pipeline, question }) => {
    const body = JSON.stringify({ query: question, include_sources: true })
    const url = `${uri}/v1/pipelines/${encodeURIComponent(pipeline)}`
    return [`curl -s ${shellWord(url)}`, bearer('ESPALIER_RAG_TOKEN'), jsonType, `-d ${shellWord(body)}`].join(
      continued,
    )
  },
}

const requests: { [Type in keyof Trial]: (trial: Trial[Type]) => TryRequest | undefined } = {
  rest: ({ method, path, query, body, token }) => {
    const json = hasBody(method) ? jsonOf(body) : undefined
    if (hasBody(method) && json === undefined) return undefined
    const text = json === undefined ? {} : { body: json }
    const bearer = token === '' ? {} : { token }
    return { type: 'rest', body: { method, path: pathOf(path), query: queryOf(query), ...text, ...bearer } }
  },
  mcp: ({ tool, arguments: text }) => {
    const toolArguments = argumentsOf(text)
    return toolArguments && { type: 'mcp', body: { tool: tool.trim(), arguments: toolArguments } }
  },
  rag: ({ pipeline, question }) => ({ type: 'rag', body: { pipeline, query: question } }),
}

export const needsBody = hasBody

/** Returns the request to the API. Returns undefined if the body or the arguments are not valid JSON. */
export const tryRequest = <Type extends keyof Trial>(type: Type, trial: Trial[Type]): TryRequest | undefined =>
  requests[type](trial)

export const tryCommand = <Type extends keyof Trial>(type: Type, uri: string, trial: Trial[Type]): string | undefined =>
  commands[type](uri, trial)
