/** For tests of the tool server: settings of a test cluster's database, and calls as a transport makes them. */
import type { JsonObject } from '../../mcp-protocol/json.ts'
import type { TestPostgres } from '../../testing/postgres.ts'
import type { DatabaseSettings } from '../configuration/types.ts'
import { ArgumentsError } from '../core/arguments.ts'
import type { CallContext, Outcome } from '../core/call.ts'
import { anyone } from '../core/caller.ts'
import { type Tool, type ToolResult, toolError } from '../core/tool.ts'

export function databaseOf(
  postgres: Pick<TestPostgres, 'port'>,
  changed: Partial<DatabaseSettings> = {},
): DatabaseSettings {
  return {
    name: 'main',
    host: '127.0.0.1',
    port: postgres.port,
    database: 'postgres',
    user: 'postgres',
    password: undefined,
    sslmode: 'disable',
    sslrootcert: undefined,
    sslcert: undefined,
    sslkey: undefined,
    channelBinding: 'prefer',
    allowWrites: false,
    allowUnconfirmed: false,
    // A test cluster has no unprivileged login.
    allowPrivilegedLogin: true,
    showSecrets: false,
    poolSize: 4,
    poolMinimum: 0,
    poolIdleMs: 1_800_000,
    poolLifetimeMs: 3_600_000,
    poolCheckMs: 30_000,
    connectTimeoutMs: 5_000,
    statementTimeoutMs: 10_000,
    metadataMs: 300_000,
    availableToUsers: undefined,
    ...changed,
  }
}

export function callContext(changed: Partial<CallContext> = {}): CallContext {
  return {
    caller: anyone,
    address: undefined,
    signal: new AbortController().signal,
    requestId: 'request-1',
    traceparent: undefined,
    inputKinds: new Set(),
    answers: undefined,
    progress: () => {},
    log: () => {},
    ...changed,
  }
}

/** Calls a tool. Refused arguments become an error result, as a model receives it. */
export async function callTool(tool: Tool, args: JsonObject, context = callContext()): Promise<Outcome<ToolResult>> {
  try {
    return await tool.call(args, context)
  } catch (error) {
    if (error instanceof ArgumentsError) return toolError(error.message)
    throw error
  }
}
