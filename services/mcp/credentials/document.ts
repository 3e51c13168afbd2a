/**
 * A credential file as text: YAML with one table of named entries. Reading returns all entries, checked, or reports the
 * problem and its location. A change keeps everything else, including comments.
 */
import { type Document, parseDocument } from 'yaml'
import { z } from 'zod'
import { CredentialError } from './errors.ts'

/** The structure of a token file or a user file. */
export type Form<Entry> = {
  /** The table's name: `tokens` or `users`. */
  readonly table: string
  readonly entry: z.ZodType<Entry>
  readonly name: RegExp
  /** The rule for an entry's name. */
  readonly nameRule: string
}

export type Entries<Entry> = ReadonlyMap<string, Entry>

const mostBytes = 8_388_608
const mostEntries = 50_000

/** A time as text, because YAML parsers disagree on a time type. */
export const time = z.iso.datetime({ offset: true, error: 'must be a time like 2030-01-31T00:00:00Z' })

function documentOf(text: string): Document {
  if (text.length > mostBytes) throw new CredentialError(`is larger than ${mostBytes} bytes`)
  const document = parseDocument(text, { schema: 'core', logLevel: 'silent', uniqueKeys: true })
  const [error] = document.errors
  if (error !== undefined) {
    const [at] = error.linePos ?? []
    // The parser's own message may quote the line, which contains a hash.
    const where = at === undefined ? '' : `, line ${at.line}, column ${at.col}`
    throw new CredentialError(`is not YAML (${error.code}${where})`)
  }
  return document
}

function plainValue(document: Document): unknown {
  try {
    return document.toJS({ maxAliasCount: 0 })
  } catch {
    throw new CredentialError('has an alias (*name), which is not allowed')
  }
}

/** @throws CredentialError */
export function parseEntries<Entry>(form: Form<Entry>, text: string): Entries<Entry> {
  const { table, entry, name, nameRule } = form
  const named = z
    .record(z.string().regex(name, nameRule), entry)
    .refine(all => Object.keys(all).length <= mostEntries, {
      error: `must have at most ${mostEntries} entries`,
    })
  // An empty table may have no value. But the key must exist: a file that lost its beginning must not count as empty.
  const documentSchema = z.strictObject({ [table]: z.union([named, z.null().transform(() => ({}))]) })
  const result = documentSchema.safeParse(plainValue(documentOf(text)))
  if (!result.success) throw new CredentialError(describe(result.error, table))
  return new Map(Object.entries(result.data[table] ?? {}))
}

function describe(error: z.ZodError, table: string): string {
  const issues = error.issues.flatMap(issue =>
    // In a union, only the first branch, the table, has a useful error.
    issue.code === 'invalid_union'
      ? (issue.errors[0] ?? []).map(inner => ({ ...inner, path: [...issue.path, ...inner.path] }))
      : [issue],
  )
  const messages = issues.slice(0, 10).map(issue => {
    const path = issue.path.map(String).join('.') || `the file, which must have ${table}:`
    if (issue.code === 'unrecognized_keys') return `${path} has unknown keys: ${issue.keys.slice(0, 5).join(', ')}`
    if (issue.code === 'invalid_key') return `${path} ${issue.issues[0]?.message ?? 'is not a name'}`
    return `${path} ${issue.message}`
  })
  return messages.join('; ')
}

/** Replaces the entries in the text. @throws CredentialError if the text is malformed */
export function withEntries<Entry>(form: Form<Entry>, text: string | undefined, changed: Entries<Entry>): string {
  const source = text ?? `${form.table}: {}\n`
  const before = parseEntries(form, source)
  const document = documentOf(source)
  if (before.size === 0) document.set(form.table, document.createNode({}))
  for (const name of before.keys()) if (!changed.has(name)) document.deleteIn([form.table, name])
  for (const [name, entry] of changed) {
    if (JSON.stringify(before.get(name)) === JSON.stringify(entry)) continue
    document.setIn([form.table, name], document.createNode(entry))
  }
  const written = document.toString({ lineWidth: 0 })
  // Checks that the new text can be parsed.
  parseEntries(form, written)
  return written
}
