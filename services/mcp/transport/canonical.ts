/** Writes a JSON value as text. Equal values have equal texts: the order of an object's members has no effect. */
import { isObject } from '../../mcp-protocol/json-rpc.ts'

export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (!isObject(value)) return JSON.stringify(value) ?? 'null'
  const keys = Object.keys(value).sort()
  return `{${keys.map(key => `${JSON.stringify(key)}:${canonical(value[key])}`).join(',')}}`
}
