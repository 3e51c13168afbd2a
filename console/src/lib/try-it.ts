/**
 * One request to a service, as the API sends it and as a curl command. The page itself sends none: its content security
 * policy admits only the API and the OpenID provider, so that no text of the page can be sent elsewhere. Pure.
 */
import type { Schemas } from '../api/client.ts'
import { formatJson } from './format-json.ts'
import { shellWord } from './snippets.ts'

export const methods = ['GET', 'POST', 'PATCH', 'DELETE'] as const
type Method = (typeof methods)[number]

export type Trial = {
  /** `token`: empty for a request without one. */
  rest: { method: Method; path: string; query: string; body: string; token: string }
  mcp: { tool: string; arguments: string }
  rag: { pipeline: string; question: string }
}

const continued = ' \\\n  '
const bearer = (variable: string): string => `-H "Authorization: Bearer $${variable}"`
const jsonType = "-H 'Content-Type: application/json'"

const hasBody = (method: Method): boolean => method === 'POST' || method === 'PATCH'

/** What the API sends: a path below the type, and its body. */
export type TryRequest =
  | { type: 'rest'; body: Schemas['RestTryInput'] }
  | { type: 'mcp'; body: Schemas['MCPTryInput'] }
  | { type: 'rag'; body: Schemas['RAGTryInput'] }

/** The JSON of a body on one line; undefined if it is none. */
const jsonOf = (text: string): string | undefined => formatJson(text, '')

/** The arguments of a tool; undefined if the text is no JSON object. */
function argumentsOf(text: string): Record<string, unknown> | undefined {
  if (text.trim() === '') return {}
  const json = jsonOf(text)
  const value: unknown = json === undefined ? undefined : JSON.parse(json)
  // What JSON.parse returns with braces is an object of any members.
  return json?.startsWith('{') ? (value as Record<string, unknown>) : undefined
}

/** A query keeps `=`, `&` and the signs of PostgREST; what no URL may have is encoded. */
const queryOf = (text: string): string =>
  encodeURI(text.toWellFormed().trim().replace(/^\?/, '')).replaceAll('#', '%23')

const pathOf = (text: string): string =>
  text
    .toWellFormed()
    .replace(/^\/+/, '')
    .split('/')
    .map(segment => encodeURIComponent(segment.trim()))
    .join('/')

/** Undefined: a text that must be JSON is none. */
const commands: { [Type in keyof Trial]: (uri: string, trial: Trial[Type]) => string | undefined } = {
  rest: (uri, { method, path, query, body, token }) => {
    const given = queryOf(query)
    const url = `${uri}/${pathOf(path)}${given === '' ? '' : `?${given}`}`
    const json = hasBody(method) ? jsonOf(body) : ''
    if (json === undefined) return undefined
    const verb = method === 'GET' ? [] : [`-X ${method}`]
    const sent = [
      ...(token === '' ? [] : [bearer('ESPALIER_REST_TOKEN')]),
      ...(hasBody(method) ? [jsonType, `-d ${shellWord(json)}`] : []),
    ]
    // curl would read brackets and braces as ranges.
    return [`curl -s -g ${[...verb, shellWord(url)].join(' ')}`, ...sent].join(continued)
  },
  mcp: (uri, { tool, arguments: text }) => {
    const given = argumentsOf(text)
    if (given === undefined) return undefined
    const params = { name: tool.trim(), arguments: given }
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
    const given = argumentsOf(text)
    return given && { type: 'mcp', body: { tool: tool.trim(), arguments: given } }
  },
  rag: ({ pipeline, question }) => ({ type: 'rag', body: { pipeline, query: question } }),
}

export const needsBody = hasBody

/** Undefined: a text that must be JSON is none. */
export const tryRequest = <Type extends keyof Trial>(type: Type, trial: Trial[Type]): TryRequest | undefined =>
  requests[type](trial)

export const tryCommand = <Type extends keyof Trial>(type: Type, uri: string, trial: Trial[Type]): string | undefined =>
  commands[type](uri, trial)
