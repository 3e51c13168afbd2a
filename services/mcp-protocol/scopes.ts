/** The scopes of an access token. */
export const scopes = ['mcp:read', 'mcp:write'] as const
export type Scope = (typeof scopes)[number]
