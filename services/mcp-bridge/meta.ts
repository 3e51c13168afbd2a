/** `params._meta` of a message that is passed on. */
import { ownPrefix } from '../mcp-protocol/bridge-fields.ts'
import type { JsonObject } from '../mcp-protocol/json.ts'
import { isObject, metaOf } from '../mcp-protocol/json-rpc.ts'

/** `params` with `fields` in `_meta`, and without what anybody else put there under the bridge's prefix. */
export function withMeta(params: JsonObject, fields: JsonObject): JsonObject {
  const kept = Object.entries(metaOf(params)).filter(([name]) => !name.startsWith(ownPrefix))
  const all = Object.fromEntries([...kept, ...Object.entries(fields)])
  // An empty `_meta` stays: some servers want it, and it hurts none.
  return Object.keys(all).length === 0 && !isObject(params._meta) ? params : { ...params, _meta: all }
}
