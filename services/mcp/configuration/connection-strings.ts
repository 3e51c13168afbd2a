/** A whole connection string in one variable, `ESPALIER_DB_URI` or `ESPALIER_DB_<n>_URI`: as if each of its parts had a variable of its own. */
import { readConnectionText } from '../../configuration/connection-text.ts'
import type { Environment } from '../../configuration/declaration.ts'
import type { Problem } from '../../configuration/errors.ts'
import { isHarmlessKeyword } from '../../postgres/address.ts'

const variable = /^ESPALIER_DB_(?:(\d{1,3})_)?URI$/
/** By the keywords of libpq. */
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
/** The tool server names itself. */
const isPassedOver = (keyword: string): boolean =>
  isHarmlessKeyword(keyword) || keyword === 'application_name' || keyword === 'fallback_application_name'

type WithoutStrings = { readonly environment: Environment; readonly wrong: readonly Problem[] }

const noString = 'must be a connection string of Postgres, such as postgresql://user@host/database'

/** What is asked for and not done is never passed over. */
function ruleBroken(keywords: ReadonlyMap<string, string> | undefined): string | undefined {
  if (keywords === undefined) return noString
  const unknown = [...keywords.keys()].find(keyword => !Object.hasOwn(parts, keyword) && !isPassedOver(keyword))
  // Where the string is garbled, what stands there may be a part of a password.
  if (unknown !== undefined && !/^[a-z_]{1,40}$/.test(unknown)) return noString
  return unknown && `must not have the keyword ${unknown}, which is not supported`
}

/** libpq counts seconds, and takes 0 for no limit, as if it were not said. */
const writtenOf = (keyword: string, value: string): string =>
  keyword !== 'connect_timeout' || !/^\d+$/.test(value) ? value : Number(value) === 0 ? '' : `${Number(value)}s`

/** A part that has a variable itself is what that says. */
export function withoutConnectionStrings(environment: Environment): WithoutStrings {
  const wrong: Problem[] = []
  const given = Object.entries(environment).flatMap(([name, value = '']): [string, string][] => {
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
  return { environment: { ...Object.fromEntries(given), ...Object.fromEntries(own) }, wrong }
}
