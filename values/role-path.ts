/**
 * The path expression of `roleClaimKey`: the location of the role's name in a token's claims (PostgREST 14's
 * documentation, references/auth "JWT Role Extraction"). It is parsed once, when the service starts; reading never
 * throws.
 *
 *     path      = 1*( "." key / "[" index "]" ) [ filter ]     ; begins with "."
 *     key       = 1*( letter / digit / "_" / "$" / "@" ) / DQUOTE *( any but DQUOTE ) DQUOTE
 *     filter    = "[?(@" operator DQUOTE text DQUOTE ")]"      ; spaces allowed around the operator
 *     operator  = "==" / "!=" / "^==" / "==^" / "*=="
 *
 * A path that begins with "$" is one of RFC 9535 (json-path.ts), as PostgREST 16 accepts them.
 */
import { followJsonPath, type JsonPath, JsonPathError, parseJsonPath } from './json-path.ts'
import { isRecord } from './record.ts'

type FilterOperator = '==' | '!=' | '^==' | '==^' | '*=='

type Step =
  | { kind: 'key'; key: string }
  | { kind: 'index'; index: number }
  | { kind: 'filter'; operator: FilterOperator; text: string }

/** An invalid path. The message is the violated rule. */
export class RolePathError extends Error {}

export type RolePath = readonly Step[] | JsonPath

const bareKey = /[\p{L}\p{N}_$@]+/uy
const quotedText = /"[^"]*"/y
const arrayIndex = /[0-9]{1,9}/y
const spaces = / */y
/** Longer operators come first, because "==" is a prefix of "==^". */
const operators: readonly FilterOperator[] = ['==^', '^==', '*==', '==', '!=']

/**
 * Parses a path expression.
 * @throws RolePathError that names the character (counted from 1) and states what is expected there.
 */
export function parseRolePath(text: string): RolePath {
  if (!text.startsWith('$')) return new PathReader(text).path()
  try {
    return parseJsonPath(text)
  } catch (error) {
    if (error instanceof JsonPathError) throw new RolePathError(error.message)
    throw error
  }
}

class PathReader {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  path(): Step[] {
    const steps = [this.#key()]
    while (this.#at < this.#text.length) {
      const step = this.#step()
      steps.push(step)
      if (step.kind === 'filter' && this.#at < this.#text.length) this.#fail('the end, since a filter selects a text')
    }
    return steps
  }

  #step(): Step {
    if (this.#text.startsWith('[?(', this.#at)) return this.#filter()
    if (this.#text.startsWith('[', this.#at)) return this.#index()
    return this.#key()
  }

  #key(): Step {
    this.#expect('.')
    const bare = this.#take(bareKey)
    if (bare !== undefined) return { kind: 'key', key: bare }
    return { kind: 'key', key: this.#quoted('a key of letters, digits, "_", "$" or "@", or a key in double quotes') }
  }

  #index(): Step {
    this.#expect('[')
    const digits = this.#take(arrayIndex) ?? this.#fail('an index of 1 to 9 digits')
    this.#expect(']')
    return { kind: 'index', index: Number(digits) }
  }

  #filter(): Step {
    this.#expect('[?(')
    this.#take(spaces)
    this.#expect('@')
    this.#take(spaces)
    const operator = operators.find(candidate => this.#text.startsWith(candidate, this.#at))
    if (operator === undefined) this.#fail('one of the operators ==, !=, ^==, ==^ and *==')
    this.#at += operator.length
    this.#take(spaces)
    const text = this.#quoted('a text in double quotes')
    this.#take(spaces)
    this.#expect(')]')
    return { kind: 'filter', operator, text }
  }

  #quoted(expected: string): string {
    return (this.#take(quotedText) ?? this.#fail(expected)).slice(1, -1)
  }

  #take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#text)?.[0]
    this.#at += found?.length ?? 0
    return found
  }

  #expect(token: string): void {
    if (!this.#text.startsWith(token, this.#at)) this.#fail(`"${token}"`)
    this.#at += token.length
  }

  #fail(expected: string): never {
    throw new RolePathError(`expected ${expected} at character ${this.#at + 1} of ${JSON.stringify(this.#text)}`)
  }
}

/** The value at the path; undefined if the claims have none. */
export function followRolePath(path: RolePath, claims: unknown): unknown {
  if ('segments' in path) return followJsonPath(path, claims)
  let value = claims
  for (const step of path) {
    value = take(step, value)
    if (value === undefined) return undefined
  }
  return value
}

function take(step: Step, value: unknown): unknown {
  switch (step.kind) {
    case 'key':
      return isRecord(value) && Object.hasOwn(value, step.key) ? value[step.key] : undefined
    case 'index':
      return Array.isArray(value) ? value[step.index] : undefined
    case 'filter':
      return Array.isArray(value) ? value.find(element => selects(step.operator, element, step.text)) : undefined
  }
}

/** An element that is not text is never selected, not even with "!=". */
function selects(operator: FilterOperator, element: unknown, text: string): boolean {
  if (typeof element !== 'string') return false
  switch (operator) {
    case '==':
      return element === text
    case '!=':
      return element !== text
    case '^==':
      return element.startsWith(text)
    case '==^':
      return element.endsWith(text)
    case '*==':
      return element.includes(text)
  }
}
