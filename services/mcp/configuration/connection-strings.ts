/**
 * A complete connection string in one variable, `ESPALIER_DB_URI` or `ESPALIER_DB_<n>_URI`. It has the same effect as a
 * separate variable for each of its parts.
 */
import { readConnectionText } from '../../configuration/connection-text.ts'
import type { Environment } from '../../configuration/declaration.ts'
import type { Problem } from '../../configuration/errors.ts'
import { isIgnoredKeyword } from '../../postgres/address.ts'

const variable = /^ESPALIER_DB_(?:(\d{1,3})_)?URI$/
/** The part's variable by libpq keyword. */
const parts: Readonly<Record<string, string>> = {
  host: 'HOST',
  port: 'PORT',
  dbname: 'DATABASE',
  user: 'USER',
  password: 'PASSWORD',
  sslmode: 'SSLMODE',
  sslrootcert: 'SSLROOTCERT',
  sslcert: 'SSLCERT',
  sslkey: 'SSLKEY',
  channel_binding: 'CHANNEL_BINDING',
  connect_timeout: 'CONNECT_TIMEOUT',
}
/** Ignores the application name, because the tool server sets its own. */
const hasNoEffect = (keyword: string): boolean =>
  isIgnoredKeyword(keyword) || keyword === 'application_name' || keyword === 'fallback_application_name'

type WithoutStrings = { readonly environment: Environment; readonly wrong: readonly Problem[] }

const noString = 'must be a connection string of Postgres, such as postgresql://user@host/database'

/** Refuses unsupported keywords instead of ignoring them. */
function ruleBroken(keywords: ReadonlyMap<string, string> | undefined): string | undefined {
  if (keywords === undefined) return noString
  const unknown = [...keywords.keys()].find(keyword => !Object.hasOwn(parts, keyword) && !hasNoEffect(keyword))
  // In a malformed string, the keyword could be part of a password.
  if (unknown !== undefined && !/^[a-z_]{1,40}$/.test(unknown)) return noString
  return unknown && `must not have the keyword ${unknown}, which is not supported`
}

/** libpq counts seconds. Like a missing value, 0 means no limit to libpq. */
const writtenOf = (keyword: string, value: string): string =>
  keyword !== 'connect_timeout' || !/^\d+$/.test(value) ? value : Number(value) === 0 ? '' : `${Number(value)}s`

/** A variable for a part overrides the connection string. */
export function withoutConnectionStrings(environment: Environment): WithoutStrings {
  const wrong: Problem[] = []
  const fromVariables = Object.entries(environment).flatMap(([name, value = '']): [string, string][] => {
    const found = variable.exec(name)
    if (found === null || value === '') return []
    const keywords = readConnectionText(value)
    const [, number = '1'] = found
    const rule = ruleBroken(keywords)
    const source = { kind: 'environment', variable: name } as const
    if (rule !== undefined) wrong.push({ key: `databases[${Number(number) - 1}]`, source, rule })
    return [...(keywords ?? [])].flatMap(([keyword, part]): [string, string][] => {
      const field = parts[keyword]
      return field === undefined ? [] : [[name.replace(/URI$/, field), writtenOf(keyword, part)]]
    })
  })
  const own = Object.entries(environment).filter(([, value]) => value !== undefined && value !== '')
  return { environment: { ...Object.fromEntries(fromVariables), ...Object.fromEntries(own) }, wrong }
}
