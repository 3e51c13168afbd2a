/** Arguments of a tool, which fit its input schema by now. An empty text is what some clients send for none. */
import type { JsonObject } from '../../mcp-protocol/json.ts'

export function textArgument(args: JsonObject, name: string): string | undefined {
  const value = args[name]
  return typeof value === 'string' && value.trim() !== '' ? value : undefined
}

export const flagArgument = (args: JsonObject, name: string): boolean => args[name] === true

export function numberArgument(args: JsonObject, name: string): number | undefined {
  const value = args[name]
  return typeof value === 'number' ? value : undefined
}

export function listArgument(args: JsonObject, name: string): readonly string[] {
  const value = args[name]
  return Array.isArray(value) ? value.filter(item => typeof item === 'string') : []
}
