/**
 * Rules for a service's configuration that the schema cannot express. Each function returns the rule that a text
 * violates, or undefined. The API refuses a configuration that violates a rule. If it was applied with kubectl, the
 * operator reports it.
 */
import { parseRolePath, RolePathError } from '../values/role-path.ts'
import { reservedRoles, type ServiceConfig } from './services.ts'

/**
 * The maximum number of tokens and users in the keys of a service `mcp`. The operator hashes each user's password,
 * which takes 0.1 s or more.
 */
export const mostInitial = { tokens: 32, users: 32 } as const

export type TextRule = (text: string) => string | undefined

const parts = (text: string): string[] => text.split(',').map(part => part.trim())

const hasTwice = (texts: readonly string[]): boolean => new Set(texts).size < texts.length

const longestName = 63

/** Schemas that belong to Postgres. */
const isReservedSchema = (name: string): boolean => name.startsWith('pg_') || name === 'information_schema'

export const schemasRule: TextRule = text => {
  const names = parts(text)
  if (names.includes('')) return 'must be names of schemas separated by commas, none of them empty'
  if (names.some(name => name.includes('\0') || Buffer.byteLength(name) > longestName))
    return `must hold names of at most ${longestName} bytes`
  if (hasTwice(names)) return 'must not name a schema twice'
  const reserved = names.find(isReservedSchema)
  return reserved === undefined ? undefined : `must not name ${reserved}, which belongs to Postgres`
}

export const anonymousRoleRule: TextRule = name => {
  if (/\p{Cc}/u.test(name) || !name.isWellFormed() || Buffer.byteLength(name) > longestName)
    return `must be the name of a role, of at most ${longestName} bytes and without control characters`
  return reservedRoles.some(reserved => reserved === name) || name.startsWith('pg_') || name.startsWith('espalier_')
    ? `must be a role of your own: it must not be pg_*, espalier_* or one of ${reservedRoles.join(', ')}`
    : undefined
}

const origin = /^[a-z][a-z0-9+.-]*:\/\/[^\s/?#,@*]+$/i

export const originRule: TextRule = text =>
  text === '*' || origin.test(text) ? undefined : 'must be an origin, for example https://app.example.com, or *'

export const originsRule: TextRule = text =>
  parts(text).every(one => originRule(one) === undefined)
    ? undefined
    : 'must be origins separated by commas, for example https://app.example.com, or *'

/** The path to the JWT claim that names the role, in the syntax of `rest`. */
export const claimPathRule: TextRule = text => {
  try {
    parseRolePath(text)
    return undefined
  } catch (error) {
    if (error instanceof RolePathError) return error.message
    throw error
  }
}

/** In the syntax of `rag`. Quotes are part of a name. */
export const tableRule: TextRule = text => {
  const names = text.split('.')
  const isName = (name: string) => name !== '' && Buffer.byteLength(name) <= longestName && !/\p{Cc}/u.test(name)
  return names.length <= 2 && names.every(isName)
    ? undefined
    : `must be the name of a table, as table or schema.table, each part of at most ${longestName} bytes`
}

/** `field`: the name in the API. */
export type ConfigurationFault = { type: ServiceConfig['serviceType']; field: string; rule: string }

/** The rules that a configuration violates. Does not check filters, which need an SQL parser. */
export function configurationFaults({ rest, rag }: Pick<ServiceConfig, 'rest' | 'rag'>): ConfigurationFault[] {
  const fault = (type: 'rest' | 'rag', field: string, rule: string | undefined): ConfigurationFault[] =>
    rule === undefined ? [] : [{ type, field, rule }]
  const given = (rule: TextRule, text: string | undefined) => (text ? rule(text) : undefined)
  return [
    ...(rest === undefined
      ? []
      : [
          ...fault('rest', 'db_schemas', schemasRule(rest.dbSchemas)),
          ...fault('rest', 'db_anon_role', anonymousRoleRule(rest.dbAnonRole)),
          ...fault('rest', 'jwt_role_claim_key', given(claimPathRule, rest.jwtRoleClaimKey)),
          ...fault('rest', 'cors_origins', given(originsRule, rest.corsOrigins)),
        ]),
    ...(rag?.cors?.allowedOrigins ?? []).flatMap((one, index) =>
      fault('rag', `cors.allowed_origins[${index}]`, originRule(one)),
    ),
    ...(rag?.pipelines ?? []).flatMap(({ tables }, pipeline) =>
      tables.flatMap(({ table }, index) =>
        fault('rag', `pipelines[${pipeline}].tables[${index}].table`, tableRule(table)),
      ),
    ),
  ]
}
