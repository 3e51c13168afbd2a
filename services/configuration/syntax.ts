/**
 * The configuration file format: lines of `key = value`. A value is a string in double quotes, a whole number, or
 * true/false/on/off. `#` starts a comment (PostgREST docs, "Config File"; the format of the Haskell package
 * configurator). In a string, ` \r \t \" \\ \uXXXX` are escapes, `$(NAME)` is an environment variable, and `$$` is a
 * dollar sign. parseFile reads everything that writeBinding writes as the same key and value. This module checks only
 * the syntax, not the keys.
 */
import type { Document } from './document.ts'
import { ConfigurationSyntaxError } from './errors.ts'

export type Scalar = string | number | boolean
type Binding = { key: string; value: Scalar; line: number }

/** In UTF-16 code units. This is enough for a file of some fifty keys, including a JSON Web Key set. */
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

/** Parses one line from left to right. */
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

/** @throws ConfigurationSyntaxError at the first line with invalid syntax, or with a variable that is not set */
export function parseFile(text: string, environment: Environment): Binding[] {
  if (text.length > MAX_FILE_LENGTH) {
    throw new ConfigurationSyntaxError(1, 1, `must not be longer than ${MAX_FILE_LENGTH} characters`)
  }
  return text
    .replace(/^\uFEFF/, '')
    .split(/\r?\n/)
    .flatMap((content, index) => parseLine(new Line(content, index + 1), environment))
}

/** The file as a document. Keys with a prefix in `tables`, such as `app.settings.`, become a table with that name. */
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
  const key = line.takes(keyForm)?.[0] ?? line.fail('expected a key, like db-uri')
  line.takes(blank)
  if (!line.takes(/=/y)) line.fail('expected "=" after the key')
  line.takes(blank)
  const value = parseValue(line, environment)
  line.takes(blank)
  if (!line.takes(lineEnd)) line.fail('expected the end of the line after the value')
  return [{ key, value, line: line.number }]
}

function parseValue(line: Line, environment: Environment): Scalar {
  if (line.takes(/"/y)) return parseString(line, environment)
  const digits = line.takes(number)
  if (digits) return Number(digits[0])
  const truth = line.takes(word)
  if (truth) return truth[0] === 'true' || truth[0] === 'on'
  return line.fail('expected a value: a string in double quotes, a whole number, true or false')
}

/** Called after the opening quote. Decodes escapes before it checks surrogates, since a pair is two escapes. */
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
  return line.fail(`the environment variable ${name} is not set`)
}

/** One line without its line end. The text must be well-formed Unicode. */
export function writeBinding(key: string, value: Scalar): string {
  return `${key} = ${typeof value === 'string' ? `"${[...value].map(writeCharacter).join('')}"` : value}`
}

function writeCharacter(character: string): string {
  if (character === '$') return '$$'
  if (character === '"' || character === '\\') return `\\${character}`
  // Also escapes Unicode line separators, because some editors treat them as the end of a line.
  if (!/[\p{Cc}\u2028\u2029\uFEFF]/u.test(character)) return character
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}
