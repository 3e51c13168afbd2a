/**
 * The format of a configuration file: lines of `key = value`, where a value is a string in double quotes, a whole number, or
 * true/false/on/off, and `#` begins a comment (PostgREST docs, "Config File"; the format is the one of the Haskell package configurator).
 * In a string `\n \r \t \" \\ \uXXXX` are escapes, `$(NAME)` is a variable of the environment and `$$` a dollar sign.
 * Whatever writeBinding writes, parseFile reads back as the same key and value. Knows the form only, not the keys.
 */
import type { Document } from './document.ts'
import { ConfigurationSyntaxError } from './errors.ts'

export type Scalar = string | number | boolean
type Binding = { key: string; value: Scalar; line: number }

/** In UTF-16 code units. Generous for a file of some fifty keys, a key set among them. */
export const MAX_FILE_LENGTH = 1_048_576

const keyForm = /[\p{L}][\p{L}\p{N}_.-]*/uy
const blank = /[ \t]*/y
const lineEnd = /(?:#.*)?$/sy
const number = /-?\d{1,15}(?![\p{L}\p{N}_.-])/uy
const word = /(?:true|false|on|off)(?![\p{L}\p{N}_.-])/uy
const plainText = /[^"\\$]+/y
const escapeForm = /\\(?:["\\nrt]|u[0-9A-Fa-f]{4})/y
const variable = /\$\(([A-Za-z_][A-Za-z0-9_]*)\)/y
const escaped: Record<string, string> = { n: '\n', r: '\r', t: '\t', '"': '"', '\\': '\\' }

type Environment = Record<string, string | undefined>

/** One line, read from left to right. */
class Line {
  readonly text: string
  readonly number: number
  at = 0

  constructor(text: string, number: number) {
    this.text = text
    this.number = number
  }

  takes(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.at
    const found = pattern.exec(this.text)
    if (found === null) return undefined
    this.at += found[0].length
    return found
  }

  fail(rule: string): never {
    throw new ConfigurationSyntaxError(this.number, this.at + 1, rule)
  }
}

/** @throws ConfigurationSyntaxError at the first line that is not of the format, or names a variable that is not set. */
export function parseFile(text: string, environment: Environment): Binding[] {
  if (text.length > MAX_FILE_LENGTH) {
    throw new ConfigurationSyntaxError(1, 1, `must not be longer than ${MAX_FILE_LENGTH} characters`)
  }
  return text
    .replace(/^\uFEFF/, '')
    .split(/\r?\n/)
    .flatMap((content, index) => parseLine(new Line(content, index + 1), environment))
}

/** The file as a document; keys below `tables`, such as `app.settings.`, are in a table of that name. */
export function parseDocument(text: string, environment: Environment, tables: readonly string[]): Document {
  const root: Record<string, unknown> = {}
  const lines = new Map<string, number>()
  for (const { key, value, line } of parseFile(text, environment)) {
    lines.set(key, line)
    const table = tables.find(name => key.startsWith(`${name}.`))
    if (table === undefined) root[key] = value
    else root[table] = { ...(root[table] as object), [key.slice(table.length + 1)]: value }
  }
  return { root, problems: [], sourceOf: path => ({ kind: 'file', line: lines.get(path.join('.')) ?? 1 }) }
}

function parseLine(line: Line, environment: Environment): Binding[] {
  line.takes(blank)
  if (line.takes(lineEnd)) return []
  const key = line.takes(keyForm)?.[0] ?? line.fail('a key was expected, like db-uri')
  line.takes(blank)
  if (!line.takes(/=/y)) line.fail('"=" was expected after the key')
  line.takes(blank)
  const value = parseValue(line, environment)
  line.takes(blank)
  if (!line.takes(lineEnd)) line.fail('the end of the line was expected after the value')
  return [{ key, value, line: line.number }]
}

function parseValue(line: Line, environment: Environment): Scalar {
  if (line.takes(/"/y)) return parseString(line, environment)
  const digits = line.takes(number)
  if (digits) return Number(digits[0])
  const truth = line.takes(word)
  if (truth) return truth[0] === 'true' || truth[0] === 'on'
  return line.fail('a value was expected: a string in double quotes, a whole number, true or false')
}

/** After the opening quote. The escapes are undone before halves of a pair are looked for, since a pair is two of them. */
function parseString(line: Line, environment: Environment): string {
  const start = line.at
  let text = ''
  for (;;) {
    text += line.takes(plainText)?.[0] ?? ''
    if (line.takes(/"/y)) break
    text += parseEscape(line) ?? parseDollar(line, environment) ?? line.fail('a string must end with a double quote')
  }
  if (!text.isWellFormed()) {
    line.at = start
    line.fail('a \\u escape must not be half of a surrogate pair')
  }
  return text
}

function parseEscape(line: Line): string | undefined {
  if (line.text[line.at] !== '\\') return undefined
  const found = line.takes(escapeForm)?.[0] ?? line.fail('only \\" \\\\ \\n \\r \\t and \\uXXXX are escapes')
  const kind = found.charAt(1)
  return escaped[kind] ?? String.fromCharCode(Number.parseInt(found.slice(2), 16))
}

function parseDollar(line: Line, environment: Environment): string | undefined {
  if (line.text[line.at] !== '$') return undefined
  if (line.takes(/\$\$/y)) return '$'
  const start = line.at
  const name = line.takes(variable)?.[1] ?? line.fail('"$" must be written "$$", or begin a variable like $(NAME)')
  const value = Object.hasOwn(environment, name) ? environment[name] : undefined
  if (value !== undefined) return value
  line.at = start
  return line.fail(`the environment has no variable ${name}`)
}

/** One line, without its end. The text must be well-formed Unicode. */
export function writeBinding(key: string, value: Scalar): string {
  return `${key} = ${typeof value === 'string' ? `"${[...value].map(writeCharacter).join('')}"` : value}`
}

function writeCharacter(character: string): string {
  if (character === '$') return '$$'
  if (character === '"' || character === '\\') return `\\${character}`
  // Also the line separators of Unicode, which some editors take for the end of a line.
  if (!/[\p{Cc}\u2028\u2029\uFEFF]/u.test(character)) return character
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}
