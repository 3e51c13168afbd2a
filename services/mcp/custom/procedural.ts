/** PL/pgSQL of own tools as statements. Pure, but for the mark that no code can know. */
import { randomBytes } from 'node:crypto'
import type { JsonObject } from '../../mcp-protocol/json.ts'

/** Where a `pl-do` tool leaves its result. */
const resultSetting = 'mcp.tool_result'
/** In the schema of the session's own: it ends with the session, which ends with the call. */
const functionName = 'pg_temp.espalier_custom_tool'

const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`

function body(code: string): string {
  const mark = `$espalier_${randomBytes(6).toString('hex')}$`
  return `${mark}\n${code}\n${mark}`
}

/** `args` and `result` are there for the code, which is a block of its own. */
export const doStatement = (code: string, args: JsonObject): string =>
  `DO LANGUAGE plpgsql ${body(
    `DECLARE args jsonb := ${quoted(JSON.stringify(args))}::jsonb; result jsonb;\nBEGIN\n${code.trimEnd().replace(/;?$/, ';')}\nEND`,
  )}`

export const functionStatement = ({ code, returns }: { readonly code: string; readonly returns: string }): string =>
  `CREATE FUNCTION ${functionName}(args jsonb) RETURNS ${returns} LANGUAGE plpgsql AS ${body(code)}`

export const functionCall = `SELECT * FROM ${functionName}($1::jsonb)`
export const resultOfDo = `SELECT pg_catalog.current_setting('${resultSetting}', true) AS result`
