/**
 * One request to a service as a curl command. The page sends none itself: its content security policy admits only the
 * API and the OpenID provider, so that no text of the page can be sent elsewhere. Pure.
 */
import { shellWord } from './snippets.ts'

export const methods = ['GET', 'POST', 'PATCH', 'DELETE'] as const
type Method = (typeof methods)[number]

export type Trial = {
  rest: { method: Method; path: string; query: string; body: string }
  mcp: { tool: string; arguments: string }
  rag: { pipeline: string; question: string }
}

const continued = ' \\\n  '
const bearer = (variable: string): string => `-H "Authorization: Bearer $${variable}"`
const jsonType = "-H 'Content-Type: application/json'"

const hasBody = (method: Method): boolean => method === 'POST' || method === 'PATCH'

/** The JSON of a body on one line; undefined if it is none. */
function jsonOf(text: string): string | undefined {
  try {
    return JSON.stringify(JSON.parse(text))
  } catch {
    return undefined
  }
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
  rest: (uri, { method, path, query, body }) => {
    const given = queryOf(query)
    const url = `${uri}/${pathOf(path)}${given === '' ? '' : `?${given}`}`
    const json = hasBody(method) ? jsonOf(body) : ''
    if (json === undefined) return undefined
    const verb = method === 'GET' ? [] : [`-X ${method}`]
    const sent = hasBody(method) ? [jsonType, `-d ${shellWord(json)}`] : []
    // curl would read brackets and braces as ranges.
    return [`curl -s -g ${[...verb, shellWord(url)].join(' ')}`, ...sent].join(continued)
  },
  mcp: (uri, { tool, arguments: text }) => {
    const json = jsonOf(text.trim() === '' ? '{}' : text)
    if (json === undefined) return undefined
    const params = { name: tool.trim(), arguments: JSON.parse(json) as unknown }
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

export const needsBody = hasBody

export const tryCommand = <Type extends keyof Trial>(type: Type, uri: string, trial: Trial[Type]): string | undefined =>
  commands[type](uri, trial)
