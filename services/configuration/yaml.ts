/**
 * Parses a configuration file in YAML. Checks only the form, not the keys. Reports unsupported constructs with their
 * position.
 */
import {
  type Alias,
  isAlias,
  isCollection,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Document as Parsed,
  parseDocument,
} from 'yaml'
import type { Environment, Sources } from './declaration.ts'
import { type Document, nameOf, type Path } from './document.ts'
import type { Problem, Source } from './errors.ts'
import { MAX_FILE_LENGTH } from './syntax.ts'

const mostDepth = 64
const mostValues = 50_000
const mostSyntaxErrors = 10

/**
 * The target of each alias: the last earlier node with its anchor. All targets are found in one pass, since
 * `Alias.resolve` searches the document each time.
 */
function aliasTargets(root: unknown): ReadonlyMap<Alias, unknown> {
  const anchors = new Map<string, unknown>()
  const targets = new Map<Alias, unknown>()
  const pending = [root]
  while (pending.length > 0) {
    const node = pending.pop()
    if (isAlias(node)) targets.set(node, anchors.get(node.source))
    else if ((isScalar(node) || isCollection(node)) && node.anchor) anchors.set(node.anchor, node)
    if (isSeq(node)) for (const item of node.items.toReversed()) pending.push(item)
    if (isMap(node)) for (const { key, value } of node.items.toReversed()) pending.push(value, key)
  }
  return targets
}

/** Converts a parsed file to plain values and records their lines. */
class Reader {
  readonly problems: Problem[] = []
  readonly #path: string | undefined
  readonly #environment: Environment | undefined
  readonly #lines = new LineCounter()
  readonly #offsets = new Map<string, number>()
  readonly #document: Parsed
  readonly #targets: ReadonlyMap<Alias, unknown>
  #values = 0

  constructor(text: string, path: string | undefined, environment: Environment | undefined) {
    this.#path = path
    this.#environment = environment
    const isTooLong = text.length > MAX_FILE_LENGTH
    if (isTooLong) this.#refuse([], 0, `must have at most ${MAX_FILE_LENGTH} characters`)
    const options = { schema: 'core', logLevel: 'silent', lineCounter: this.#lines } as const
    this.#document = parseDocument(isTooLong ? '' : text, options)
    for (const { code, pos } of this.#document.errors.slice(0, mostSyntaxErrors))
      this.#refuse([], pos[0], `is not YAML (${code})`)
    this.#targets = environment === undefined ? new Map() : aliasTargets(this.#document.contents)
  }

  read(): Record<string, unknown> {
    const root: unknown = this.#document.contents
    const isEmpty = root === null || (isScalar(root) && root.value === null)
    if (isEmpty || this.#document.errors.length > 0) return {}
    if (isMap(root)) return this.#table(root.items, [])
    this.#refuse([], 0, 'must be a table of keys')
    return {}
  }

  sourceOf(path: Path): Source {
    const offset = this.#offsets.get(nameOf(path))
    return offset === undefined && path.length > 0 ? this.sourceOf(path.slice(0, -1)) : this.#at(offset ?? 0)
  }

  #at = (offset: number): Source => ({
    kind: 'file',
    line: Math.max(1, this.#lines.linePos(offset).line),
    ...(this.#path !== undefined && { path: this.#path }),
  })

  #refuse(path: Path, offset: number, rule: string): undefined {
    this.problems.push({ key: nameOf(path) || 'the file', source: this.#at(offset), rule })
  }

  /** Undefined: the value was refused. */
  #value(node: unknown, path: Path): unknown {
    const offset = (isScalar(node) || isCollection(node) || isAlias(node) ? node.range?.[0] : undefined) ?? 0
    this.#values += 1
    if (this.#values > mostValues) {
      const isFirst = this.#values === mostValues + 1
      return isFirst ? this.#refuse(path, offset, `is one too many: a file may have ${mostValues} values`) : undefined
    }
    this.#offsets.set(nameOf(path), offset)
    if (path.length > mostDepth) return this.#refuse(path, offset, `must not be nested deeper than ${mostDepth}`)
    if (isMap(node)) return this.#table(node.items, path)
    if (isSeq(node)) return node.items.map((item, index) => this.#value(item, [...path, index]))
    if (isAlias(node)) {
      if (this.#environment === undefined) return this.#refuse(path, offset, 'must not be an alias')
      const target = this.#targets.get(node)
      return target === undefined ? this.#refuse(path, offset, 'has no anchor before it') : this.#value(target, path)
    }
    const value = isScalar(node) ? node.value : null
    return typeof value === 'string' ? this.#expand(value, path, offset) : value
  }

  #table(pairs: readonly { key: unknown; value: unknown }[], path: Path): Record<string, unknown> {
    const entries = pairs.flatMap(({ key, value }): [string, unknown][] => {
      if (!isScalar(key)) return this.#refuse(path, 0, 'must have plain keys') ?? []
      const inner = this.#value(value, [...path, String(key.value)])
      return inner === undefined ? [] : [[String(key.value), inner]]
    })
    return Object.fromEntries(entries)
  }

  /**
   * Replaces `${NAME}` with the variable's value, and `$${NAME}` with the text `${NAME}`. A single `$` is not changed.
   */
  #expand(text: string, path: Path, offset: number): string {
    const environment = this.#environment
    if (environment === undefined) return text
    return text.replace(/\$?\$\{([A-Za-z_]\w*)\}/g, (found, name: string) => {
      if (found.startsWith('$$')) return found.slice(1)
      const value = environment[name]
      if (value === undefined) this.#refuse(path, offset, `needs the environment variable ${name}, which is not set`)
      return value ?? ''
    })
  }
}

/** `environment`: if it is defined, `${NAME}` and aliases are replaced. */
export function parseYaml({ text, path }: NonNullable<Sources['file']>, environment?: Environment): Document {
  const reader = new Reader(text, path, environment)
  return { root: reader.read(), problems: reader.problems, sourceOf: key => reader.sourceOf(key) }
}
