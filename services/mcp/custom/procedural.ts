/**
 * Converts the PL/pgSQL code of custom tools to statements. Code cannot end its dollar quotes, because their tag is
 * random.
 */
import { randomBytes } from 'node:crypto'
import type { JsonObject } from '../../mcp-protocol/json.ts'

/** The setting in which a `pl-do` tool returns its result. */
const resultSetting = 'mcp.tool_result'
/** A temporary function. Postgres deletes it with the session, which ends with the call. */
const functionName = 'pg_temp.espalier_custom_tool'

const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`

function body(code: string): string {
  const quote = `$espalier_${randomBytes(6).toString('hex')}$`
  return `${quote}\n${code}\n${quote}`
}

/** The code becomes an inner block that can use the variables `args` and `result`. */
export const doStatement = (code: string, args: JsonObject): string =>
  `DO LANGUAGE plpgsql ${body(
    `DECLARE args jsonb := ${quoted(JSON.stringify(args))}::jsonb; result jsonb;\nBEGIN\n${code.trimEnd().replace(/;?$/, ';')}\nEND`,
  )}`

export const functionStatement = ({ code, returns }: { readonly code: string; readonly returns: string }): string =>
  `CREATE FUNCTION ${functionName}(args jsonb) RETURNS ${returns} LANGUAGE plpgsql AS ${body(code)}`

export const functionCall = `SELECT * FROM ${functionName}($1::jsonb)`
export const resultOfDo = `SELECT pg_catalog.current_setting('${resultSetting}', true) AS result`
