/**
 * A configuration file in YAML as its leaves: each with its key, as `databases[0].host`, and its line. Knows the form only, not the keys; what
 * cannot be said in that form is a problem with its place.
 */
import { isAlias, isCollection, isMap, isPair, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml'
import type { Problem, Source } from '../../configuration/errors.ts'
import type { Scalar } from '../../configuration/syntax.ts'

export type Leaf = { readonly value: Scalar; readonly source: Source }

export type Tree = {
  readonly leaves: ReadonlyMap<string, Leaf>
  /** How many entries a list of tables has, by its key. */
  readonly lengths: ReadonlyMap<string, number>
  readonly problems: readonly Problem[]
}

const mostCharacters = 1_048_576
const mostDepth = 8
const mostLeaves = 5_000

/** `path` names the file in what is said of it. */
export function readTree(text: string, path: string): Tree {
  const leaves = new Map<string, Leaf>()
  const lengths = new Map<string, number>()
  const problems: Problem[] = []
  const lines = new LineCounter()
  const at = (offset: number | undefined): Source => ({ kind: 'file', path, line: lines.linePos(offset ?? 0).line })
  const refuse = (key: string, source: Source, rule: string) => void problems.push({ key, source, rule })

  if (text.length > mostCharacters) {
    refuse('the file', { kind: 'file', path, line: 1 }, `must have at most ${mostCharacters} characters`)
    return { leaves, lengths, problems }
  }
  const document = parseDocument(text, { schema: 'core', logLevel: 'silent', lineCounter: lines })
  for (const { code, pos } of document.errors.slice(0, 10)) refuse('the file', at(pos[0]), `is not YAML (${code})`)
  if (problems.length > 0) return { leaves, lengths, problems }

  const offsetOf = (node: unknown): number | undefined =>
    isScalar(node) || isCollection(node) || isAlias(node) ? node.range?.[0] : undefined

  function add(key: string, value: Scalar, offset: number | undefined): void {
    if (leaves.size === mostLeaves) refuse(key, at(offset), `is one too many: a file may have ${mostLeaves} values`)
    if (leaves.size < mostLeaves) leaves.set(key, { value, source: at(offset) })
  }

  /** Several values with commas between them, as the environment has them; or tables by their number. */
  function list(items: readonly unknown[], key: string, depth: number, offset: number | undefined): void {
    if (items.length > 0 && items.every(isMap)) {
      lengths.set(key, items.length)
      for (const [index, item] of items.entries()) visit(item, `${key}[${index}]`, depth + 1)
      return
    }
    const values = items.map(item => (isScalar(item) && item.value !== null ? String(item.value) : undefined))
    if (values.includes(undefined)) refuse(key, at(offset), 'must be a list of values, or one of tables')
    else if (values.some(value => value?.includes(','))) refuse(key, at(offset), 'must have no comma in a value')
    else add(key, values.join(','), offset)
  }

  function table(pairs: readonly unknown[], key: string, depth: number, offset: number | undefined): void {
    for (const pair of pairs) {
      if (!isPair(pair) || !isScalar(pair.key)) refuse(key, at(offset), 'must have plain keys')
      else visit(pair.value, key === '' ? String(pair.key.value) : `${key}.${pair.key.value}`, depth + 1)
    }
  }

  function scalar(value: unknown, key: string, offset: number | undefined): void {
    if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') add(key, value, offset)
    else refuse(key, at(offset), 'must be text, a number, true or false')
  }

  function visit(node: unknown, key: string, depth: number): void {
    const offset = offsetOf(node)
    if (depth > mostDepth) refuse(key, at(offset), `must not be nested deeper than ${mostDepth}`)
    else if (isAlias(node)) refuse(key, at(offset), 'must not be an alias')
    else if (isSeq(node)) list(node.items, key, depth, offset)
    else if (isMap(node)) table(node.items, key, depth, offset)
    // A key without a value is not given.
    else if (isScalar(node) && node.value !== null) scalar(node.value, key, offset)
  }

  const root: Node | null = document.contents
  if (root !== null && !isMap(root) && !(isScalar(root) && root.value === null))
    refuse('the file', at(0), 'must be a table of keys')
  else visit(root, '', 0)
  return { leaves, lengths, problems }
}
