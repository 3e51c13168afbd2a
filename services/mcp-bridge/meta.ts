/** `params._meta` of a message that is passed on. */
import { ownPrefix } from '../mcp-protocol/bridge-fields.ts'
import type { JsonObject } from '../mcp-protocol/json.ts'
import { isObject, metaOf } from '../mcp-protocol/json-rpc.ts'

/** Returns `params` with `fields` in `_meta`, without fields that other senders put under the bridge's prefix. */
export function withMeta(params: JsonObject, fields: JsonObject): JsonObject {
  const own = Object.entries(metaOf(params)).filter(([name]) => !name.startsWith(ownPrefix))
  const all = Object.fromEntries([...own, ...Object.entries(fields)])
  // An empty `_meta` is kept: some servers require it.
  return Object.keys(all).length === 0 && !isObject(params._meta) ? params : { ...params, _meta: all }
}
