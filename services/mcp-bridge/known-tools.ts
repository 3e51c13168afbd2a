/** The tools that a server lists: whether they only read, and their input schemas. */
import type { JsonObject, JsonSchema } from '../mcp-protocol/json.ts'
import { isObject } from '../mcp-protocol/json-rpc.ts'
import type { Exchange, Owner } from './exchange.ts'

const mostPages = 50
const timeoutMs = 30_000

export type KnownTool = { readonly isReadOnly: boolean; readonly inputSchema: JsonSchema }

const isSchema = (value: unknown): value is JsonSchema => isObject(value) && value.type === 'object'

/** Tools by name. Empty if the server lists no tools. */
export async function knownTools(
  exchange: Exchange,
  owner: Owner,
  fields: JsonObject,
): Promise<ReadonlyMap<string, KnownTool>> {
  const known = new Map<string, KnownTool>()
  let cursor: string | undefined
  for (let page = 0; page < mostPages; page += 1) {
    const params = cursor === undefined ? {} : { cursor }
    const message = { kind: 'request', id: 'tools', method: 'tools/list', params } as const
    const { outcome } = await exchange.request({ owner, message, fields, onMessage: () => {}, timeoutMs })
    if (!isObject(outcome.result) || !Array.isArray(outcome.result.tools)) return known
    for (const tool of outcome.result.tools) {
      if (!isObject(tool) || typeof tool.name !== 'string' || !isSchema(tool.inputSchema)) continue
      const isReadOnly = isObject(tool.annotations) && tool.annotations.readOnlyHint === true
      known.set(tool.name, { isReadOnly, inputSchema: tool.inputSchema })
    }
    if (typeof outcome.result.nextCursor !== 'string') return known
    cursor = outcome.result.nextCursor
  }
  return known
}
