/** What an access token may be for. */
export const scopes = ['mcp:read', 'mcp:write'] as const
export type Scope = (typeof scopes)[number]
