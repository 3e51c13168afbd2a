/** JSON, by the names that tools know it by. */
export type { Json, JsonObject, JsonSchema } from '../../mcp-protocol/json.ts'
