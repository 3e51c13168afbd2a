/**
 * The paths of services as rules, with the same results as `locationOf` of `../http/paths.ts`. `https.test.ts` compares
 * both.
 */
import type { ServiceType } from '../../routes/route.ts'

export type PathRule = {
  path: string
  /** `below`: the path itself, and every path that begins with it and a slash. */
  match: 'exact' | 'below'
  service: ServiceType
  port: 'main' | 'bridge'
  /** The prefix that is removed before the service gets the path. */
  strip?: string
}

/** The first match is used. */
export const pathRules: readonly PathRule[] = [
  { path: '/rest', match: 'below', service: 'rest', port: 'main', strip: '/rest' },
  { path: '/rag', match: 'below', service: 'rag', port: 'main', strip: '/rag' },
  { path: '/mcp', match: 'exact', service: 'mcp', port: 'bridge' },
  { path: '/mcp/v1', match: 'below', service: 'mcp', port: 'main' },
  { path: '/mcp/api', match: 'below', service: 'mcp', port: 'main', strip: '/mcp' },
  { path: '/mcp/health', match: 'exact', service: 'mcp', port: 'main', strip: '/mcp' },
  { path: '/.well-known', match: 'below', service: 'mcp', port: 'bridge' },
  { path: '/oauth', match: 'below', service: 'mcp', port: 'bridge' },
  { path: '/register', match: 'exact', service: 'mcp', port: 'bridge' },
]
