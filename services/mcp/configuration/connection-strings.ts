/** A whole connection string in one variable, `ESPALIER_DB_URI` or `ESPALIER_DB_<n>_URI`: as if each of its parts had a variable of its own. */
import { readConnectionText } from '../../configuration/connection-text.ts'
import type { Environment } from './reader.ts'

const variable = /^ESPALIER_(DB_(?:(\d{1,3})_)?URI)$/
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
}

type WithoutStrings = {
  readonly environment: Environment
  /** What is to be connected by variables, named without their prefix, that hold no connection string. */
  readonly wrong: readonly { readonly key: string; readonly variable: string }[]
}

/** A part that has a variable itself is what that says. */
export function withoutConnectionStrings(environment: Environment): WithoutStrings {
  const wrong: { key: string; variable: string }[] = []
  const given = Object.entries(environment).flatMap(([name, value = '']): [string, string][] => {
    const found = variable.exec(name)
    if (found === null || value === '') return []
    const keywords = readConnectionText(value)
    const [, own = '', number = '1'] = found
    if (keywords === undefined) wrong.push({ key: `databases[${Number(number) - 1}]`, variable: own })
    return [...(keywords ?? [])].flatMap(([keyword, part]): [string, string][] => {
      const field = parts[keyword]
      return field === undefined ? [] : [[name.replace(/URI$/, field), part]]
    })
  })
  const own = Object.entries(environment).filter(([, value]) => value !== undefined && value !== '')
  return { environment: { ...Object.fromEntries(given), ...Object.fromEntries(own) }, wrong }
}
