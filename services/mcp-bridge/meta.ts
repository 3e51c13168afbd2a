/** Sets `params._meta` of a forwarded message. */
import { ownPrefix } from '../mcp-protocol/bridge-fields.ts'
import type { JsonObject } from '../mcp-protocol/json.ts'
import { isObject, metaOf } from '../mcp-protocol/json-rpc.ts'

/** Returns `params` with `fields` in `_meta`. Removes fields under the bridge's prefix that another sender set. */
export function withMeta(params: JsonObject, fields: JsonObject): JsonObject {
  const own = Object.entries(metaOf(params)).filter(([name]) => !name.startsWith(ownPrefix))
  const all = Object.fromEntries([...own, ...Object.entries(fields)])
  // Keeps an empty `_meta`, because some servers require it.
  return Object.keys(all).length === 0 && !isObject(params._meta) ? params : { ...params, _meta: all }
}
