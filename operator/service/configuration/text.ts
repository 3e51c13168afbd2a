/**
 * Configuration files as text. The values come from users. No value can add a key or refer to an environment variable.
 */

/** A variable in a file whose server replaces `${NAME}`. Other values with `${` are escaped. */
export class Variable {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

/** JSON, which is a subset of YAML, for a server that replaces no variables. */
export const yaml = (value: object): string => `${JSON.stringify(value, undefined, 2)}\n`

/** JSON for a server that replaces `${NAME}`, and reads `$${NAME}` as that text. */
export const yamlWithVariables = (value: object): string =>
  `${JSON.stringify(value, (_, entry: unknown) => (entry instanceof Variable ? entry.text : literal(entry)), 2)}\n`

const literal = (entry: unknown): unknown =>
  typeof entry === 'string' ? entry.replace(/\$\{(?=[A-Za-z_]\w*\})/g, '$$$${') : entry

/** The server's format with lines `key = value` (services/configuration/syntax.ts). Omits undefined values. */
export const bindings = (values: Readonly<Record<string, string | number | boolean | undefined>>): string =>
  Object.entries(values)
    .flatMap(([key, value]) =>
      value === undefined ? [] : [`${key} = ${typeof value === 'string' ? quoted(value) : value}\n`],
    )
    .join('')

const quoted = (text: string): string => `"${[...text.toWellFormed()].map(written).join('')}"`

function written(character: string): string {
  if (character === '$') return '$$'
  if (character === '"' || character === '\\') return `\\${character}`
  if (!/[\p{Cc}\u2028\u2029\uFEFF]/u.test(character)) return character
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}
