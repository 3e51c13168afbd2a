/**
 * Prints a configuration of `key = value` lines: every key with its value and with masked secrets, or every key with
 * its default. A service can load the output.
 */
import { MASK } from './connection-text.ts'
import { camelCase, type Declaration, type Key, keysOf, Open, type Settings } from './declaration.ts'
import { isTable } from './document.ts'
import { type Scalar, writeBinding } from './syntax.ts'

/**
 * The keys are in the order of the declaration, and open tables are last. A key that is not set is printed as an empty
 * string, which unsets the key. Secrets, passwords in URIs and all values of open tables are masked, since only users
 * know what open tables contain.
 */
export function describeSettings<Keys extends Declaration>(declaration: Keys, settings: Settings<Keys>): string {
  const lines = keysOf(declaration).map(({ name, key, path }) => {
    const value = path.reduce<unknown>((table, field) => (isTable(table) ? table[field] : undefined), settings)
    return writeBinding(name, printed(key, value))
  })
  const fields = new Map<string, unknown>(Object.entries(settings))
  const open = Object.entries(declaration).flatMap(([name, entry]) =>
    entry instanceof Open
      ? Object.keys(fields.get(camelCase(name)) ?? {}).map(own => writeBinding(`${name}.${own}`, MASK))
      : [],
  )
  return `${[...lines, ...open].join('\n')}\n`
}

function printed({ kind: { mask, type }, extras }: Key, value: unknown): Scalar {
  if (value === undefined) return ''
  if (extras.isSecret || value instanceof Uint8Array) return MASK
  if (mask !== undefined) return mask(String(value))
  if (type === 'mode') return Number(value).toString(8)
  if (Array.isArray(value)) return value.join(', ')
  return typeof value === 'number' || typeof value === 'boolean' ? value : String(value)
}

/** A configuration file: each key has its default, is commented out, and follows its description. */
export const exampleFile = (declaration: Declaration): string =>
  keysOf(declaration)
    .map(({ name, key }) => `# ${key.extras.meaning}\n# ${writeBinding(name, key.default ?? '')}\n`)
    .join('\n')
