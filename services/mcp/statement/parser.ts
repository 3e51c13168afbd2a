/**
 * Postgres's own parser, as WebAssembly. It is loaded at first use, or earlier by `warmParser`. No text affects the
 * parsing of the next text: an instance that has run out of stack or memory is replaced and its memory is freed. The
 * package's own entry point keeps one instance forever, so this module loads the package's WebAssembly directly.
 */
import { StatementRefusal } from './refusal.ts'

/** A node of a tree. It has the kind as its only key, or it has the node's fields. */
export type TreeNode = { readonly [key: string]: unknown }
type RawStatement = { readonly stmt: TreeNode; readonly stmt_location?: number; readonly stmt_len?: number }

/** The used part of libpg-query's WebAssembly module. Its memory is 32-bit. */
type Instance = {
  lengthBytesUTF8(text: string): number
  stringToUTF8(text: string, pointer: number, bytes: number): void
  UTF8ToString(pointer: number): string
  getValue(pointer: number, type: 'i32'): number
  _malloc(bytes: number): number
  _free(pointer: number): void
  _wasm_parse_query_raw(text: number): number
  _wasm_free_parse_result(result: number): void
}

export type ParsedStatement = {
  readonly node: TreeNode
  /** The statement without preceding text and without the semicolon. Its last line may be a comment. */
  readonly text: string
}

/**
 * The maximum length of a statement in characters. Parsing such a statement blocks the event loop for at most about 100
 * ms.
 */
export const maximumStatement = 65_536

let loading: Promise<Instance> | undefined
/** Broken instances, which must not be used again. */
const spent = new WeakSet<Instance>()

async function instantiate(): Promise<Instance> {
  const module: unknown = await import(import.meta.resolve('libpg-query/wasm/libpg-query.js'))
  // emscripten's exports; the version is pinned, and tests check them
  const { default: make } = module as { default: () => Promise<Instance> }
  return make()
}

async function ready(): Promise<Instance> {
  for (;;) {
    loading ??= instantiate()
    const own = loading
    try {
      const instance = await own
      if (!spent.has(instance)) return instance
    } catch (error) {
      if (loading === own) loading = undefined
      throw error
    }
    if (loading === own) loading = undefined
  }
}

/**
 * Starts loading the parser, which takes about 60 ms, so that the first statement need not wait. The first statement
 * reports an error.
 */
export function warmParser(): void {
  ready().catch(() => {})
}

const tooDeep = () =>
  new StatementRefusal(
    'too large',
    'The statement is nested too deeply, or is a chain of too many terms. Write it in simpler parts.',
  )

/**
 * Returns the tree as JSON. libpg_query returns `PgQueryParseResult {tree, stderr, error}` with `PgQueryError {message,
 * function, file, line, cursor}`.
 */
function parse(instance: Instance, text: string): string {
  const bytes = instance.lengthBytesUTF8(text) + 1
  const source = instance._malloc(bytes)
  let result = 0
  try {
    instance.stringToUTF8(text, source, bytes)
    result = instance._wasm_parse_query_raw(source)
    const word = (pointer: number, index: number) => instance.getValue(pointer + 4 * index, 'i32')
    const error = word(result, 2)
    if (error === 0) return instance.UTF8ToString(word(result, 0))
    const message = instance.UTF8ToString(word(error, 0))
    if (message.startsWith('memory exhausted') || message.startsWith('stack depth limit')) throw tooDeep()
    throw new StatementRefusal('syntax', message, Math.max(0, word(error, 4) - 1))
  } finally {
    instance._free(source)
    if (result !== 0) instance._wasm_free_parse_result(result)
  }
}

function tree(instance: Instance, text: string): readonly RawStatement[] {
  try {
    // libpg_query's JSON has this form
    const { stmts = [] } = JSON.parse(parse(instance, text)) as { stmts?: readonly RawStatement[] }
    return stmts
  } catch (error) {
    if (error instanceof StatementRefusal) throw error
    // The instance is out of stack or memory, and never frees the memory of this call.
    spent.add(instance)
    throw tooDeep()
  }
}

/** @throws StatementRefusal */
export async function parseStatement(text: string): Promise<ParsedStatement> {
  if (text.length > maximumStatement) {
    throw new StatementRefusal(
      'too large',
      `The statement has ${text.length} characters; at most ${maximumStatement} are taken.`,
    )
  }
  if (text.includes('\0')) throw new StatementRefusal('syntax', 'The statement has a zero byte.', text.indexOf('\0'))
  // libpg-query computes the UTF-8 length of such a text wrongly, so the parser would read less of it than Postgres.
  if (!text.isWellFormed()) throw new StatementRefusal('syntax', 'The statement has half of a surrogate pair.')
  let instance = await ready()
  while (spent.has(instance)) instance = await ready()
  const statements = text.trim() === '' ? [] : tree(instance, text)
  const [first, second] = statements
  if (first === undefined) throw new StatementRefusal('syntax', 'There is no statement.')
  if (second !== undefined) {
    throw new StatementRefusal('several statements', `There are ${statements.length} statements; send one at a time.`)
  }
  const bytes = Buffer.from(text)
  const from = first.stmt_location ?? 0
  const to = first.stmt_len ? from + first.stmt_len : bytes.length
  return { node: first.stmt, text: bytes.toString('utf8', from, to).trim() }
}
